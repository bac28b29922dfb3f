"""Suites: the tables of the papers as data, run, kept and compared with what was published."""

from rightreasons.benchmark.backends import open_backend as open_backend
from rightreasons.benchmark.comparison import Comparison as Comparison
from rightreasons.benchmark.comparison import compare as compare
from rightreasons.benchmark.comparison import show_suite as show_suite
from rightreasons.benchmark.measure import Figure as Figure
from rightreasons.benchmark.measure import Figures as Figures
from rightreasons.benchmark.measure import Measure as Measure
from rightreasons.benchmark.measure import read_figures as read_figures
from rightreasons.benchmark.registry import SUITES as SUITES
from rightreasons.benchmark.registry import describe as describe
from rightreasons.benchmark.runner import run_suite as run_suite
from rightreasons.benchmark.store import Row as Row
from rightreasons.benchmark.store import merge_stores as merge_stores
from rightreasons.benchmark.store import read_rows as read_rows
from rightreasons.benchmark.suite import Budget as Budget
from rightreasons.benchmark.suite import Method as Method
from rightreasons.benchmark.suite import Suite as Suite
from rightreasons.benchmark.suite import Variant as Variant

__all__ = [
    "SUITES",
    "Budget",
    "Comparison",
    "Figure",
    "Figures",
    "Measure",
    "Method",
    "Row",
    "Suite",
    "Variant",
    "compare",
    "describe",
    "merge_stores",
    "open_backend",
    "read_figures",
    "read_rows",
    "run_suite",
    "show_suite",
]

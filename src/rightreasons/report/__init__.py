"""The report: saved runs in, one self-contained HTML page out."""

from rightreasons.report.page import judge_runs as judge_runs
from rightreasons.report.page import write_report as write_report

__all__ = ["judge_runs", "write_report"]

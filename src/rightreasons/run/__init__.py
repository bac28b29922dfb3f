"""Runs: one configuration, trained, measured and kept in a folder."""

from rightreasons.run.adopt import adopt_run as adopt_run
from rightreasons.run.config import Config as Config
from rightreasons.run.config import load_config as load_config
from rightreasons.run.examples import write_examples as write_examples
from rightreasons.run.fix import fix_run as fix_run
from rightreasons.run.run import Run as Run
from rightreasons.run.run import certify_run as certify_run
from rightreasons.run.run import evaluate_run as evaluate_run
from rightreasons.run.run import load_run as load_run
from rightreasons.run.run import train_run as train_run
from rightreasons.run.selective import selective_run as selective_run

__all__ = [
    "Config",
    "Run",
    "adopt_run",
    "certify_run",
    "evaluate_run",
    "fix_run",
    "load_config",
    "load_run",
    "selective_run",
    "train_run",
    "write_examples",
]

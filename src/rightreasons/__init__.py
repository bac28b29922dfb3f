"""Make classifiers right for the right reasons.

>>> import rightreasons as rr
>>> data = rr.datasets.decoy_digits(seed=0)
>>> model = rr.models.create("mlp", classes=10, channels=1, size=14, hidden=(32,))
>>> fitted = rr.fit(model, rr.recipes.r3(weight=10.0), data.train, epochs=1)
>>> sorted(rr.evaluate(model, data.test, [rr.metrics.GroupAccuracy()]))[:1]
['group_accuracy/average']
"""

from rightreasons import annotators as annotators
from rightreasons import attacks as attacks
from rightreasons import bounds as bounds
from rightreasons import datasets as datasets
from rightreasons import errors as errors
from rightreasons import explainers as explainers
from rightreasons import integrations as integrations
from rightreasons import metrics as metrics
from rightreasons import models as models
from rightreasons import objectives as objectives
from rightreasons import strategies as strategies
from rightreasons.audit import Audit as Audit
from rightreasons.audit import audit as audit
from rightreasons.certification import Certificate as Certificate
from rightreasons.certification import certify as certify
from rightreasons.certification import certify_substitutes as certify_substitutes
from rightreasons.datasets import tables as tables
from rightreasons.datasets import texts as text
from rightreasons.objectives import Loss as Loss
from rightreasons.objectives import Objective as Objective
from rightreasons.objectives import Term as Term
from rightreasons.objectives import recipes as recipes
from rightreasons.probe.probe import Probe as Probe
from rightreasons.run import selective as selective
from rightreasons.run.fix import fix_run as fix
from rightreasons.training.evaluate import evaluate as evaluate
from rightreasons.training.fit import Fit as Fit
from rightreasons.training.fit import fit as fit
from rightreasons.types import Batch as Batch
from rightreasons.types import Interval as Interval
from rightreasons.types import Target as Target

__all__ = [
    "Audit",
    "Batch",
    "Certificate",
    "Fit",
    "Interval",
    "Loss",
    "Objective",
    "Probe",
    "Target",
    "Term",
    "annotators",
    "attacks",
    "audit",
    "bounds",
    "certify",
    "certify_substitutes",
    "datasets",
    "errors",
    "evaluate",
    "explainers",
    "fit",
    "fix",
    "integrations",
    "metrics",
    "models",
    "objectives",
    "recipes",
    "selective",
    "strategies",
    "tables",
    "text",
]

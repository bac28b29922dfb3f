"""A certificate: what was proved of a model on some data, and for which model and data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from rightreasons.core.files import write_json
from rightreasons.errors import RunNotFoundError

__all__ = [
    "STATUSES",
    "Certificate",
    "Status",
    "Verdict",
    "model_digest",
    "sentence_about",
    "summary_of",
]


def model_digest(state: Mapping[str, Tensor]) -> str:
    """A SHA-256 over the names, types, shapes and bytes of a model's state.

    Args:
        state: As ``model.state_dict()`` gives it, or as a weight file holds it.

    Example:
        >>> one, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        >>> model_digest(one.state_dict()) == model_digest(other.state_dict())
        False
    """
    sha = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


Status = Literal["verified", "refuted", "unknown", "nothing"]

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether masked features can change the prediction for one sample, and its gradient.

    Everything "proved" holds for every point of the box; everything "found" was seen at one.

    Args:
        index: Place in the data.
        y: The label.
        prediction: The class the model predicts at the sample.
        group: Number of the group; -1 is unknown.
        status: ``"verified"``: no value of the masked features in the box changes the
            prediction, proved by bounds. ``"refuted"``: an attack changed it. ``"unknown"``:
            neither. ``"nothing"``: the mask is empty, so there is nothing to certify.
        changed_to: What the attack changed the prediction to, if refuted.
        margin_proved: At least so much is the prediction's logit above all others.
        margin_found: The least that an attack found.
        loss_gradient_proved: At most so large is the L2 norm of the loss' masked gradient.
        loss_gradient_found: The largest that an attack found.
        logit_gradient_proved: The same of the label's logit.
        logit_gradient_found: The same of the label's logit.
    """

    index: int
    y: int
    prediction: int
    group: int = -1
    status: Status = "nothing"
    changed_to: int | None = None
    margin_proved: float | None = None
    margin_found: float | None = None
    loss_gradient_proved: float | None = None
    loss_gradient_found: float | None = None
    logit_gradient_proved: float | None = None
    logit_gradient_found: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether the prediction is the label."""
        return self.prediction == self.y

    @classmethod
    def from_mapping(cls, entry: Mapping[str, Any]) -> Verdict:
        """Read one back from JSON, which has null where a bound is infinite."""
        known = {field.name: entry[field.name] for field in fields(cls)}
        if known["status"] not in STATUSES:
            raise ValueError(f"no status {known['status']!r}")
        if known["status"] != "nothing":
            for name in ("margin_proved", "loss_gradient_proved", "logit_gradient_proved"):
                if known[name] is None:
                    known[name] = -math.inf if name == "margin_proved" else math.inf
        return cls(**known)


def summary_of(samples: Sequence[Verdict], groups: Sequence[str] = ()) -> dict[str, Any]:
    """Count verdicts; samples with nothing to certify are counted apart and are in no share.

    ================== =====================================================================
    ``num_samples``    all
    ``num_certifiable``  those whose mask is not empty; shares are of these
    ``counts``         of ``verified``, ``refuted``, ``unknown``, ``nothing`` and
                       ``verified_and_right``
    ``shares``         of all but ``nothing``; None if nothing can be certified
    ``worst_group``    the group with the smallest share of ``verified`` and of
                       ``verified_and_right``: its ``group``, ``share`` and size ``n``; None
                       where no sample has a known group
    ``loss_gradient``, ``logit_gradient``  ``mean`` and ``max``, ``proved`` and ``found``
    ================== =====================================================================

    Args:
        samples: The verdicts.
        groups: Names of the groups.
    """
    tests: dict[str, Callable[[Verdict], bool]] = {
        "verified": lambda sample: sample.status == "verified",
        "verified_and_right": lambda sample: sample.status == "verified" and sample.is_right,
    }
    certifiable = [sample for sample in samples if sample.status != "nothing"]
    counts: dict[str, int] = {
        status: sum(sample.status == status for sample in samples) for status in STATUSES
    }
    counts["verified_and_right"] = sum(map(tests["verified_and_right"], certifiable))
    shares = {
        name: count / len(certifiable) if certifiable else None
        for name, count in counts.items()
        if name != "nothing"
    }
    return {
        "num_samples": len(samples),
        "num_certifiable": len(certifiable),
        "counts": counts,
        "shares": shares,
        "worst_group": {name: _worst(certifiable, groups, test) for name, test in tests.items()},
        **{name: _bounds(certifiable, name) for name in ("loss_gradient", "logit_gradient")},
    }


def sentence_about(summary: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Say what was proved and what was not, for a reader who sees nothing else."""
    size, shares = summary["num_certifiable"], summary["shares"]
    if not size:
        return "No sample has a mask, so there was nothing to certify."
    where = (
        "whatever valid values the masked features take"
        if settings["epsilon"] is None
        else f"however the masked features move by up to {settings['epsilon']:g}"
    )
    words = [
        f"For {_percent(shares['verified'])} of {size} samples it is proved that the prediction "
        f"stays the same {where}; for {_percent(shares['refuted'])} an attack changed it; for the "
        f"other {_percent(shares['unknown'])} nothing is known."
    ]
    if summary["counts"]["nothing"]:
        words.append(f"{summary['counts']['nothing']} more samples have no mask and do not count.")
    words.append(f"Proved and right: {_percent(shares['verified_and_right'])}.")
    return " ".join(words)


def _worst(
    samples: Sequence[Verdict], groups: Sequence[str], test: Callable[[Verdict], bool]
) -> dict[str, Any] | None:
    members: dict[int, list[bool]] = {}
    for sample in samples:
        if sample.group >= 0:
            members.setdefault(sample.group, []).append(test(sample))
    if not members:
        return None
    number = min(sorted(members), key=lambda g: sum(members[g]) / len(members[g]))
    name = groups[number] if number < len(groups) else str(number)
    found = members[number]
    return {"group": name, "share": sum(found) / len(found), "n": len(found)}


def _bounds(samples: Sequence[Verdict], name: str) -> dict[str, dict[str, float | None]]:
    result: dict[str, dict[str, float | None]] = {}
    for kind in ("proved", "found"):
        values = [float(getattr(sample, f"{name}_{kind}")) for sample in samples]
        result[kind] = {
            "mean": sum(values) / len(values) if values else None,
            "max": max(values, default=None),
        }
    return result


def _percent(share: float) -> str:
    """Per cent, never rounded up to a claim about all or down to one about none."""
    rounded = f"{100 * share:.1f}"
    if 0 < share < 1 and rounded in ("0.0", "100.0"):
        return "less than 0.1 %" if share < 0.5 else "more than 99.9 %"
    return f"{rounded} %"


FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was proved, sample by sample, with all that is needed to check it again.

    Args:
        samples: One verdict for each sample.
        settings: What `certify` was asked for.
        model_sha256: Of the weights, see `model_digest`.
        data_sha256: Of the data.
        data: Name of the data.
        groups: Names of the groups.
        counterexamples: A few refuted samples: ``index``, ``prediction``, ``changed_to``, and the
            ``values`` of the ``features`` (places in the flattened sample) that change it.
        versions: Of the software.
    """

    samples: tuple[Verdict, ...]
    settings: Mapping[str, Any]
    model_sha256: str
    data_sha256: str
    data: str = "data"
    groups: tuple[str, ...] = ()
    counterexamples: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts, shares, worst groups and bounds, see `summary_of`."""
        return summary_of(self.samples, self.groups)

    @property
    def sentence(self) -> str:
        """What was proved, in words that claim no more."""
        return sentence_about(self.summary, self.settings)

    def to_json(self, path: str | Path) -> Path:
        """Write everything, whole or not at all; give the path back."""
        told = {"format": FORMAT, "sentence": self.sentence, "summary": self.summary}
        write_json(Path(path), told | asdict(self))
        return Path(path)

    @classmethod
    def from_json(cls, path: str | Path) -> Certificate:
        """Read what `to_json` wrote."""
        try:
            told = json.loads(Path(path).read_text())
            if told["format"] != FORMAT:
                raise ValueError(f"format {told['format']}, not {FORMAT}")
            return cls(
                samples=tuple(Verdict.from_mapping(entry) for entry in told["samples"]),
                settings=told["settings"],
                model_sha256=told["model_sha256"],
                data_sha256=told["data_sha256"],
                data=told["data"],
                groups=tuple(told["groups"]),
                counterexamples=tuple(told["counterexamples"]),
                versions=told["versions"],
            )
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise RunNotFoundError(
                f"Expected a certificate at {path}, but cannot read it ({error!r}). Write it with "
                "`rightreasons certify RUN`."
            ) from error

"""A certificate: the verdicts on all samples, with the model, data and settings they are for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from pydantic import TypeAdapter
from torch import Tensor

from rightreasons.core.files import (
    JSON_BYTES,
    Unreadable,
    check_file,
    translate_parser_errors,
    write_json,
)
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

FORMAT = 1  # of the file
Status = Literal["verified", "refuted", "unknown", "nothing"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether masked features can change the prediction for one sample, and its gradient.

    A value "proved" holds at every point of the box; a value "found" was reached at one point.

    Args:
        index: Index of the sample in the data.
        y: The label.
        prediction: The class the model predicts at the sample.
        group: Number of the group; -1 if unknown.
        status: ``"verified"``: no value of the masked features in the box changes the
            prediction, proved by bounds or because all were tried. ``"refuted"``: an attack changed
            it. ``"unknown"``: neither. ``"nothing"``: the mask is empty, so there is nothing to
            certify.
        changed_to: The class that the attack changed the prediction to, if refuted.
        margin_proved: Lower bound of the predicted logit minus the largest other.
        margin_found: The smallest such margin that an attack found.
        loss_gradient_proved: Upper bound of the L2 norm of the loss' masked gradient.
        loss_gradient_found: The largest such norm that an attack found.
        logit_gradient_proved: The same bound for the label's logit.
        logit_gradient_found: The largest norm found for the label's logit.
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
        """Read a verdict from JSON, which has null where a bound is infinite."""
        known = {field.name: entry[field.name] for field in fields(cls)}
        if known["status"] not in STATUSES:
            raise ValueError(f"no status {known['status']!r}")
        if known["status"] != "nothing":
            # Where substitutes were tried, there is a margin and no gradient.
            tried = known["margin_found"] is not None and known["loss_gradient_found"] is None
            gradients = () if tried else ("loss_gradient_proved", "logit_gradient_proved")
            for name in ("margin_proved", *gradients):
                if known[name] is None:
                    known[name] = -math.inf if name == "margin_proved" else math.inf
        return cls(**known)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The verdict on each sample, with all that is needed to check it again.

    Args:
        samples: One verdict for each sample.
        settings: The settings of `certify`.
        model_sha256: Digest of the weights, by `model_digest`.
        data_sha256: Digest of the data.
        data: Name of the data.
        groups: Names of the groups.
        counterexamples: A few refuted samples: ``index``, ``prediction``, ``changed_to``, and the
            ``values`` of the ``features`` (indices into the flattened sample) that change it.
        versions: Versions of the software.
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
        """Counts, shares, worst groups and gradients, as `summary_of` computes them."""
        return summary_of(self.samples, self.groups)

    @property
    def sentence(self) -> str:
        """What was proved, in one or two sentences."""
        return sentence_about(self.summary, self.settings)

    def to_json(self, path: str | Path) -> Path:
        """Write the certificate in one step, so that no partial file is left; return the path."""
        header = {"format": FORMAT, "sentence": self.sentence, "summary": self.summary}
        write_json(Path(path), header | asdict(self))
        return Path(path)

    @classmethod
    def from_json(cls, path: str | Path) -> Certificate:
        """Read a certificate that `to_json` wrote."""
        try:
            check_file(Path(path), limit=JSON_BYTES)
            with translate_parser_errors():
                text = Path(path).read_text(encoding="utf-8")
                entries = json.loads(text)
                if entries["format"] != FORMAT:
                    raise ValueError(f"format {entries['format']}, not {FORMAT}")
                checked = _checker().validate_json(text, strict=True)
                samples = tuple(Verdict.from_mapping(entry) for entry in entries["samples"])
            return replace(checked, samples=samples)
        except (OSError, Unreadable) as error:
            raise RunNotFoundError(
                f"Expected a certificate at {path}, but cannot read it ({error!r}). Write it with "
                "`rightreasons certify RUN`."
            ) from error


@cache
def _checker() -> TypeAdapter[Certificate]:
    """What checks the types of all values in a file."""
    return TypeAdapter(Certificate)


def summary_of(samples: Sequence[Verdict], groups: Sequence[str] = ()) -> dict[str, Any]:
    """Count verdicts; samples with nothing to certify are counted apart and are in no share.

    - ``num_samples``: all samples.
    - ``num_certifiable``: those whose mask is not empty; shares refer to these.
    - ``counts``: how many are ``verified``, ``refuted``, ``unknown``, ``nothing`` and
      ``verified_and_right``.
    - ``shares``: the same as shares, without ``nothing``; None if nothing can be certified.
    - ``worst_group``: the group with the smallest share of ``verified``, and of
      ``verified_and_right``, with its ``share`` and size ``n``; None if no group is known.
    - ``loss_gradient``, ``logit_gradient``: ``mean`` and ``max``, ``proved`` and ``found``.

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
        "worst_group": {
            name: _worst_group(certifiable, groups, test) for name, test in tests.items()
        },
        **{
            name: _gradient_summary(certifiable, name)
            for name in ("loss_gradient", "logit_gradient")
        },
    }


def sentence_about(summary: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """A summary in words: what was proved and what was not."""
    size, shares = summary["num_certifiable"], summary["shares"]
    if not size:
        return "No sample has a mask, so there was nothing to certify."
    where = settings.get("claim") or (
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


def model_digest(state: Mapping[str, Tensor]) -> str:
    """A SHA-256 over the names, types, shapes and bytes of a model's state.

    Args:
        state: A ``model.state_dict()``, or the content of a weight file.

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


def _worst_group(
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
    passed = members[number]
    return {"group": name, "share": sum(passed) / len(passed), "n": len(passed)}


def _gradient_summary(samples: Sequence[Verdict], name: str) -> dict[str, dict[str, float | None]]:
    result: dict[str, dict[str, float | None]] = {}
    for kind in ("proved", "found"):
        given = [getattr(sample, f"{name}_{kind}") for sample in samples]
        values = [float(value) for value in given if value is not None]
        result[kind] = {
            "mean": sum(values) / len(values) if values else None,
            "max": max(values, default=None),
        }
    return result


def _percent(share: float) -> str:
    """A share in per cent; only all samples are 100.0 % and only none are 0.0 %."""
    rounded = f"{100 * share:.1f}"
    if 0 < share < 1 and rounded in ("0.0", "100.0"):
        return "less than 0.1 %" if share < 0.5 else "more than 99.9 %"
    return f"{rounded} %"

"""What the verdicts on many samples come to, in numbers and in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightreasons.certification.verdict import STATUSES, Verdict

__all__ = ["sentence_about", "summary_of"]


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

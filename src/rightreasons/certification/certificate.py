"""A certificate: what was proved of a model on some data, and for which model and data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rightreasons.certification.summary import sentence_about, summary_of
from rightreasons.certification.verdict import Verdict
from rightreasons.checkpoint import write_json
from rightreasons.errors import RunNotFoundError

__all__ = ["Certificate"]

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

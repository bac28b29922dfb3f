"""What certificates say of the methods, as rows of a small table."""

from __future__ import annotations

from dataclasses import dataclass

from rightreasons.certification import Certificate
from rightreasons.report.section import Section
from rightreasons.report.wording import percent

__all__ = ["Proof", "proofs_of"]


@dataclass(frozen=True)
class Proof:
    """One run's certificate.

    Args:
        method: Label of its method.
        colour: Number of its colour.
        seed: Of the run.
        box: In which masked features may move.
        verified: Share of samples, as written; likewise the next three.
        refuted: By an attack.
        unknown: Neither.
        verified_and_right: What a user can rely on.
        sentence: What it means.
    """

    method: str
    colour: int
    seed: int
    box: str
    verified: str
    refuted: str
    unknown: str
    verified_and_right: str
    sentence: str


def proofs_of(section: Section) -> list[Proof]:
    """A row for each run that has a certificate of its weights."""
    return [
        _proof(certificate, method.label, method.colour, record.seed)
        for method in section.methods
        for record in method.records
        if (certificate := record.certificate) is not None
    ]


def _proof(certificate: Certificate, label: str, colour: int, seed: int) -> Proof:
    shares, epsilon = certificate.summary["shares"], certificate.settings.get("epsilon")
    told = {name: "–" if share is None else percent(share) for name, share in shares.items()}
    return Proof(
        method=label,
        colour=colour,
        seed=seed,
        box="every valid value" if epsilon is None else f"± {epsilon:g}",
        verified=told["verified"],
        refuted=told["refuted"],
        unknown=told["unknown"],
        verified_and_right=told["verified_and_right"],
        sentence=certificate.sentence,
    )

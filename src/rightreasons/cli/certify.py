"""The command that certifies a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rightreasons.cli.options import AsJson, DataDir, RunFolder
from rightreasons.core.checks import check_path
from rightreasons.errors import InvalidSettingError
from rightreasons.run.run import certify_run

__all__ = ["certify"]


def certify(
    run: RunFolder,
    epsilon: Annotated[
        float | None, typer.Option(help="How far masked features may move, in input units.")
    ] = None,
    full_range: Annotated[
        bool, typer.Option("--full-range", help="Let masked features take every valid value.")
    ] = False,
    substitutes: Annotated[
        str | None,
        typer.Option(
            help="Try substitutes of masked words or values: enumeration (exact, one place at a "
            "time) or bounds (all places at once)."
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(help="ibp (fast), crown (tight, slow) or auto (crown where needed and fast)."),
    ] = "auto",
    split: Annotated[str, typer.Option(help="Part of the data: test or validation.")] = "test",
    data_dir: DataDir = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; RUN/certificate.json if not given.",
            parser=check_path,
            metavar="PATH",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that masked features cannot change a run's predictions, or find where they do.

    Each sample is verified by bounds, refuted by an attack, or unknown. Give --epsilon for a small
    box around each sample, or --full-range for "this model provably does not read the tag".
    """
    if (epsilon is not None) + full_range + (substitutes is not None) != 1:
        got = "neither" if epsilon is None and not full_range else "both"
        raise InvalidSettingError(
            f"Expected exactly one of --epsilon E and --full-range, but got {got}. Give one; for "
            "texts and categories --substitutes enumeration."
        )
    certificate = certify_run(
        run,
        epsilon=epsilon,
        method=substitutes or method,  # type: ignore[arg-type]
        split=split,  # type: ignore[arg-type]
        data_dir=data_dir,
        out=out,
        progress=not as_json,
    )
    written = run / "certificate.json" if out is None else out
    if as_json:
        sentence, summary = certificate.sentence, certificate.summary
        value = {"certificate": str(written), "sentence": sentence, "summary": summary}
        typer.echo(json.dumps(value, indent=2))
        return
    typer.echo(_text(certificate.summary))
    typer.echo(certificate.sentence)
    typer.echo(f"Wrote {written}.")


def _text(summary: dict[str, Any]) -> str:
    lines = []
    for name in ("verified", "refuted", "unknown", "verified_and_right"):
        share, words = summary["shares"][name], name.replace("_", " ")
        share_text = "-" if share is None else f"{share:.3f}"
        lines.append(f"{words:<20}{summary['counts'][name]:>7}  {share_text:>7}")
    lines.append(f"{'nothing to certify':<20}{summary['counts']['nothing']:>7}")
    for name, worst in summary["worst_group"].items():
        if worst is not None:
            words = f"{name.replace('_', ' ')}, worst group {worst['group']}"
            lines.append(f"{words}: {worst['share']:.3f} of {worst['n']}")
    for name in ("loss_gradient", "logit_gradient"):
        largest, attack = summary[name]["proved"]["mean"], summary[name]["found"]["mean"]
        if largest is not None:
            words = f"masked {name.replace('_', ' ')}, mean"
            lines.append(f"{words}: at least {attack:.3g} (attack), at most {largest:.3g} (bounds)")
    return "\n".join(lines)

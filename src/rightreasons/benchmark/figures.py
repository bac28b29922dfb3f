"""A paper's own figures, kept as data beside the suite that repeats its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

__all__ = ["Figure", "Figures", "read_figures"]


@dataclass(frozen=True)
class Figure:
    """One number of a paper, with its deviation if the paper gives one."""

    mean: float
    deviation: float | None = None


@dataclass(frozen=True)
class Figures:
    """The numbers of a table, by variant, method and measure.

    Args:
        source: Where exactly they stand.
        values: ``values[variant][method][measure]``; what the paper does not have is left out.
    """

    source: str = ""
    values: Mapping[str, Mapping[str, Mapping[str, Figure]]] = field(default_factory=dict)

    def find(self, variant: str, method: str, measure: str) -> Figure | None:
        """The paper's number, if it has one."""
        return self.values.get(variant, {}).get(method, {}).get(measure)


def read_figures(path: str | Path) -> Figures:
    """Read figures from YAML: ``source``, and ``figures`` by variant, method and measure.

    Each is ``{mean: 0.92, deviation: 0.01}``; the deviation may be left out.
    """
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    values = {
        variant: {
            method: {measure: Figure(**figure) for measure, figure in row.items()}
            for method, row in block.items()
        }
        for variant, block in content["figures"].items()
    }
    return Figures(source=content["source"], values=values)

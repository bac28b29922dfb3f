"""Draw and compare leakage over accuracy as the penalties of Density and InputGrad grow.

The script reads the rows of the suite `density-figure4` and takes means over seeds for each weight.
The paper's Figure 4 draws every measure over the weight. Equal weights are not equal penalties, so
this figure draws leakage over accuracy. The script also compares at equal accuracy: at each point
of Density's lines it interpolates the leakage of InputGrad between neighbours of the sweep. It
takes the smallest value if a line passes that accuracy twice. It does not compare a point whose
accuracy InputGrad has at no weight.

    rightreasons bench run density-figure4 --out benchmarks/results/density
    python benchmarks/density_figure.py [--rows benchmarks/results/density]
        [--out benchmarks/results/density_figure4] [--picture docs/images/density_figure4.svg]

writes OUT.json and the picture.
"""

import argparse
import json
from pathlib import Path

from line_figure import line_figure
from rightreasons import benchmark

SUITE = "density-figure4"
COLOURS = {
    "Density (log-sum-exp)": "#1d4ed8",
    "Density (p = 1)": "#0891b2",
    "InputGrad": "#c2410c",
    "InputGrad (loss)": "#15803d",
    "InputGrad (p = 1)": "#a16207",
}
DENSITIES = tuple(name for name in COLOURS if name.startswith("Density"))
OTHERS = tuple(name for name in COLOURS if name not in DENSITIES)
Line = list[dict[str, float]]


def lines_of(rows: Path) -> dict[str, Line]:
    """Return the means of each weight by method, in the order of weights."""
    lines: dict[str, Line] = {name: [] for name in COLOURS}
    for line in benchmark.show_suite(SUITE, rows).to_dict()["lines"]:
        found = {name: value["ours"] for name, value in line["measures"].items()}
        if any(value is None for value in found.values()):
            continue
        point = {name: value["mean"] for name, value in found.items()}
        weight = float(line["chosen"]["settings"]["weight"])
        lines[line["method"]].append({"weight": weight, **point})
    return lines


def leakage_at(accuracy: float, line: Line) -> float | None:
    """Interpolate the smallest leakage at this accuracy. None outside the line."""
    found = []
    for one, other in zip(line, line[1:], strict=False):
        low, high = sorted((one, other), key=lambda point: point["accuracy"])
        if low["accuracy"] <= accuracy <= high["accuracy"]:
            share = (accuracy - low["accuracy"]) / ((high["accuracy"] - low["accuracy"]) or 1)
            found.append(low["leakage"] + share * (high["leakage"] - low["leakage"]))
    return min(found, default=None)


def compared(density: Line, line: Line) -> list[dict[str, float | None]]:
    """Compare another method's leakage with Density's at Density's accuracies."""
    found: list[dict[str, float | None]] = []
    for point in density:
        leakage = leakage_at(point["accuracy"], line)
        less = None if leakage is None else 1 - point["leakage"] / leakage
        found.append(
            {
                "weight": point["weight"],
                "accuracy": point["accuracy"],
                "leakage": point["leakage"],
                "beside": leakage,
                "less": less,
            }
        )
    return found


def in_words(density: str, name: str, row: dict[str, float | None]) -> str:
    start = f"{density}, weight {row['weight']:g}: accuracy {100 * row['accuracy']:.2f}, leakage"
    if row["beside"] is None:
        return f"{start} {row['leakage']:.4g}; {name} has this accuracy at no weight"
    less = f"{100 * row['less']:.0f} % less"
    return f"{start} {row['leakage']:.4g}; {name} {row['beside']:.4g} ({less})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=Path, default=Path("benchmarks/results/density"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/density_figure4"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/density_figure4.svg"))
    options = parser.parse_args()
    lines = lines_of(options.rows)
    if not all(lines.values()):
        parser.error(f"no rows of {SUITE} in {options.rows}: run the suite first")
    equal = {
        density: {name: compared(lines[density], lines[name]) for name in OTHERS}
        for density in DENSITIES
    }
    result = {"lines": lines, "at_equal_accuracy": equal}
    options.out.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n")
    points = {
        name: [(point["accuracy"], point["leakage"]) for point in line]
        for name, line in lines.items()
    }
    accuracies = [x for line in points.values() for x, _ in line]
    ends = (f"accuracy {100 * min(accuracies):.1f} %", f"{100 * max(accuracies):.1f} %")
    options.picture.write_text(
        line_figure("Leakage into the null block, over accuracy", ends, points, COLOURS, dots=True)
    )
    for density, others in equal.items():
        for name, rows in others.items():
            for row in rows:
                print(in_words(density, name, row))


if __name__ == "__main__":
    main()

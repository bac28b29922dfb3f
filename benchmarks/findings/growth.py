"""Numbers and tables of docs/reference/growth.md."""

from functools import cache

from findings.kept import figures, markdown

LOW, HIGH, FLAT = 1.8, 2.2, 1.05


def growth() -> str:
    """List how time and memory grow in each case."""
    rows = [
        (
            f"`{name}`",
            f"{row['samples'][1]:,}",
            f"{row['seconds'][1]:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['megabytes'][1]:,.0f}",
            f"{row['megabytes'][2] - row['megabytes'][1]:+.0f}",
        )
        for name, row in figures("growth")["cases"].items()
    ]
    names = ("Case", "Samples", "Seconds", "Twice the samples", "Megabytes", "Twice the samples")
    return markdown(names, rows)


def sweep() -> str:
    """List what a sweep keeps when a node or its driver is killed."""
    kept = figures("sweep")
    rows = []
    for name, what in (("Ray, two nodes", "node killed"), ("two processes", "driver killed")):
        row = kept.get(name)
        if row is not None:
            same = "yes" if row["same table"] else "no"
            killed = f"{what} after {row[what]['after rows']} rows"
            counts = (str(row[key]) for key in ("rows", "cells twice", "cells lost"))
            rows.append((name, killed, *counts, same))
    names = ("Where", "What happened", "Rows", "Cells twice", "Cells lost", "Table of one process")
    return markdown(names, rows)


TABLES = {"growth": growth, "sweep": sweep}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    cases, kept = figures("growth")["cases"], figures("sweep")
    linear = {name: row for name, row in cases.items() if "of the samples" not in name}
    inside = [name for name, row in linear.items() if LOW <= row["ratio"] <= HIGH]
    flat = [name for name, row in linear.items() if row["peak"] <= FLAT]
    workers = kept.get("workers", {})
    return {
        "cases": f"{len(linear)}",
        "linear": f"{len(inside)}",
        "flat": f"{len(flat)}",
        "capped": f"{cases['audit, 800 of the samples']['ratio']:.2f}",
        "cells": f"{kept['cells']}",
        "gain": f"{workers.get('times as fast', 0):.2f}",
        "load": f"{max(workers.get('load before and after', [0])):.1f}",
        "one-worker": f"{workers.get('seconds of 1 worker', [0])[0]:.0f}",
        "two-workers": f"{workers.get('seconds of 2 workers', [0])[0]:.0f}",
    }

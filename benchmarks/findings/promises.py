"""Numbers and tables of docs/reference/promises.md."""

from functools import cache

from findings.kept import figures, markdown

WORDS = {"refused": "refused with a sentence", "right": "judged rightly", "false": "believed"}


def traps() -> str:
    """List the models that are built to get a false certificate."""
    outcomes = figures("soundness")["traps"]
    return markdown(
        ("Model", "Outcome"), [(name, WORDS[outcome]) for name, outcome in outcomes.items()]
    )


def kinds() -> str:
    """List how many nets and points each layer kind had."""
    rows = [
        (f"`{kind}`", f"{count['ibp']:,}", f"{count['crown']:,}", f"{count['points']:,}")
        for kind, count in figures("soundness")["kinds"].items()
    ]
    return markdown(("Layer kind", "Nets, `ibp`", "Nets, `crown`", "Points"), rows)


def faults() -> str:
    """List how often each command was stopped, and by what."""
    rows = [
        (name, *(f"{count:,}" for count in counts.values()))
        for name, counts in figures("faults")["commands"].items()
    ]
    return markdown(("Command", "SIGKILL", "SIGTERM", "Disk full"), rows)


def memory() -> str:
    """List the peak of each recipe's first steps and of all steps."""
    rows = [
        (f"`{name}`", f"{row['first']:,}", f"{row['last']:,}", f"{row['ratio']:.3f}")
        for name, row in figures("step_memory")["recipes"].items()
    ]
    return markdown(("Recipe", "First steps, bytes", "All steps, bytes", "Ratio"), rows)


TABLES = {"faults": faults, "kinds": kinds, "memory": memory, "traps": traps}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    found = figures("soundness")
    names = {
        "nets": "nets",
        "nets-float32": "nets in float32",
        "nets-float64": "nets in float64",
        "points": "points",
        "comparisons": "comparisons",
        "layer-kinds": "layer kinds",
        "least-nets": "least nets of a kind",
        "escapes": "escapes",
        "verified": "verified samples",
        "certificate-points": "points at verified samples",
        "broken": "certificates broken",
        "false-traps": "false traps",
        "misled": "nets refused since PyTorch's gradient is wrong",
        "seed": "seed",
    }
    stopped, steps = figures("faults"), figures("step_memory")
    fault_names = {
        "kills": "SIGKILL",
        "terms": "SIGTERM",
        "disks": "disk full",
        "resumed": "resumed",
        "intruders": "intruders refused",
        "faults-failed": "failures",
    }
    stream, folder = (figures("streaming")[name] for name in ("stream", "folder"))
    return {
        "stream-images": f"{stream['images']:,}",
        "stream-memory": f"{stream['memory, later beside early']:.2f}",
        "stream-reading": f"{stream['reading beside decoding']:.2f}",
        "stream-training": f"{stream['training beside decoding']:.2f}",
        "stream-load": f"{stream['load of the machine']:.1f}",
        "stream-processors": f"{stream['seconds of processors, decoding beside reading']:.2f}",
        "folder-before": f"{folder['before']['peak GiB']:.2f}",
        "folder-after": f"{folder['after']['peak GiB']:.2f}",
        **{name: f"{found[key]:,}" for name, key in names.items()},
        **{name: f"{stopped[key]:,}" for name, key in fault_names.items()},
        "first-steps": f"{steps['first steps']:,}",
        "all-steps": f"{steps['steps']:,}",
        "largest-ratio": f"{max(row['ratio'] for row in steps['recipes'].values()):.3f}",
    }

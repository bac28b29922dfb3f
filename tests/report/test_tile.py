from dataclasses import replace

from rightreasons.certification import Certificate, Verdict
from rightreasons.report.page import tiles_of


def certificate(*statuses):
    zeros = dict.fromkeys(
        [f"{t}_gradient_{k}" for t in ("loss", "logit") for k in ("proved", "found")], 0.0
    )
    samples = [Verdict(index=0, y=0, prediction=0, status=status, **zeros) for status in statuses]
    return Certificate(
        samples=tuple(samples), settings={"epsilon": None}, model_sha256="", data_sha256=""
    )


def test_tiles_tell_every_method(make_section, make_metrics):
    section = make_section(
        ("erm", 0.5, {"validation": make_metrics(0.9, swap=0.6)}), ("r3", 0.8, {})
    )
    tiles = {tile.title: tile for tile in tiles_of(section.methods)}
    assert list(tiles) == [
        "Right in the worst group",
        "Right over all samples",
        "Gradient inside the mask",
        "Lost when the masked part is exchanged",
    ]
    worst, lost = tiles["Right in the worst group"], tiles["Lost when the masked part is exchanged"]
    assert [(e.label, e.colour, e.value) for e in worst.entries] == [
        ("erm", 0, "50.0\u202f%"),
        ("r3", 1, "80.0\u202f%"),
    ]
    assert [entry.value for entry in lost.entries] == ["35.0 points", "0.0 points"]
    assert (worst.higher_is_better, lost.higher_is_better) == (True, False)


def test_what_not_all_have_is_no_tile(make_section):
    section = make_section(("erm", 0.5, {"test": {"accuracy": 0.5}}), ("r3", 0.8, {}))
    assert [tile.title for tile in tiles_of(section.methods)] == ["Right over all samples"]


def test_no_methods_no_tiles():
    assert tiles_of(()) == []


def test_what_is_proved_is_what_every_seed_has(make_section):
    section = make_section(("erm", 0.5, {}), ("erm", 0.5, {"seed": 1}))
    (method,) = section.methods
    good, bad = certificate("verified", "verified"), certificate("verified", "refuted")
    first, second = method.records

    def told(*records):
        tiles = {tile.title: tile for tile in tiles_of([replace(method, records=records)])}
        return tiles.get("Proved not to change with the masked part")

    both = told(replace(first, certificate=good), replace(second, certificate=bad))
    assert both is not None
    assert [entry.value for entry in both.entries] == ["50.0\u202f%"]
    assert both.higher_is_better
    assert told(replace(first, certificate=good), second) is None
    assert told(first, second) is None

from rightreasons.report.tile import tiles_of


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

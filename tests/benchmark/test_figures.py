from rightreasons.benchmark.measure import Figure, Figures, read_figures

TEXT = """
source: "Table 9"
figures:
  faint:
    ERM:
      worst: {mean: 0.5, deviation: 0.1}
      average: {mean: 0.75}
"""


def test_figures_are_read_from_yaml(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(TEXT)
    figures = read_figures(path)
    assert figures.source == "Table 9"
    assert figures.find("faint", "ERM", "worst") == Figure(0.5, 0.1)
    assert figures.find("faint", "ERM", "average") == Figure(0.75, None)


def test_what_the_paper_does_not_have_is_none():
    figures = Figures("Table 9", {"faint": {"ERM": {"worst": Figure(0.5)}}})
    assert figures.find("faint", "ERM", "average") is None
    assert figures.find("faint", "R3", "worst") is None
    assert figures.find("ross", "ERM", "worst") is None

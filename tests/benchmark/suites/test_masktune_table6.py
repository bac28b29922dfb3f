from rightreasons.benchmark import Figure
from rightreasons.benchmark.cell import config_key
from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.masktune import masktune_figure2, masktune_table6


def test_the_papers_figures():
    find = masktune_table6().figures.find
    assert find("one square", "RandMask, any size", "original") == Figure(0.9102, 0.0187)
    assert find("one square", "RandMask, any size", "biased") == Figure(0.5906, 0.0925)


def test_its_runs_are_among_those_of_figure_2():
    ours, theirs = (
        {config_key(cell.config) for cell in plan(suite, "small", lambda config: None).cells}
        for suite in (masktune_table6(), masktune_figure2())
    )
    assert len(ours) == 2 * 3
    assert ours < theirs

import pytest

from rightreasons.cli.demo import demo


@pytest.mark.slow
def test_r3_beats_erm_by_forty_points_and_the_page_has_pictures(tmp_path):
    results = demo(tmp_path, progress=False)
    worst = {r["recipe"]: r["metrics"]["test"]["group_accuracy/worst"] for r in results}
    assert worst["r3"] >= worst["erm"] + 0.40
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png") >= 12
    again = demo(tmp_path, progress=False)
    assert [r["metrics"] for r in again] == [r["metrics"] for r in results]
    assert [r["seconds"] for r in again] == [r["seconds"] for r in results]

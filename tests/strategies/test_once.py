import torch

import rightreasons as rr
from rightreasons.strategies import Once


def test_it_is_one_fit(tiny_splits, make_net, fit_settings, tmp_path):
    ours, theirs = make_net(), make_net()
    fitted = Once().fit(ours, rr.recipes.erm(), tiny_splits, out=tmp_path / "a", **fit_settings)
    expected = rr.fit(
        theirs,
        rr.recipes.erm(),
        tiny_splits.train,
        validation=tiny_splits.val,
        out=tmp_path / "b",
        **fit_settings,
    )
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    assert [row["accuracy"] for row in fitted.history] == [
        row["accuracy"] for row in expected.history
    ]
    files = [{path.name for path in (tmp_path / run).iterdir()} for run in ("a", "b")]
    assert files[0] == files[1]

import pytest
import torch

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models.normalised import Normalise, normalised

MEAN, DEVIATION = [0.2, 0.4, 0.6], [0.25, 0.5, 1.0]


def test_inputs_are_normalised_channel_by_channel():
    x = torch.rand(2, 3, 4, 4)
    expected = torch.stack([(x[:, c] - MEAN[c]) / DEVIATION[c] for c in range(3)], dim=1)
    torch.testing.assert_close(Normalise(mean=MEAN, deviation=DEVIATION)(x), expected)


@pytest.mark.parametrize("deviation", [0.0, [0.2, -0.1, 1.0], [[1.0]]])
def test_a_deviation_that_is_none(deviation):
    with pytest.raises(InvalidSettingError, match="deviation to be above 0, but got 0.5 and"):
        Normalise(mean=0.5, deviation=deviation)


def test_a_model_by_name_is_normalised_on_demand():
    settings = {"classes": 3, "channels": 3, "size": 8, "width": 0.1}
    torch.manual_seed(0)
    plain = rr.models.create("lenet", **settings)
    torch.manual_seed(0)
    model = rr.models.create("lenet", mean=MEAN, deviation=DEVIATION, **settings)
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(model(x), plain(model.normalise(x)))
    with pytest.raises(InvalidSettingError, match="Expected both `mean` and `deviation`"):
        rr.models.create("lenet", mean=0.5, **settings)


def test_bounds_and_relevance_see_through_it():
    torch.manual_seed(0)
    net = rr.models.lenet(classes=3, size=8, width=0.1)
    model = normalised(net, mean=MEAN, deviation=DEVIATION).eval()
    x, y = torch.rand(2, 3, 8, 8), torch.tensor([0, 2])
    box = rr.bounds.output_bounds(model, x - 0.01, x + 0.01)
    assert bool(((box.lower <= model(x)) & (model(x) <= box.upper)).all())
    low, high = (
        Normalise(mean=MEAN, deviation=DEVIATION)(torch.full((1, 3, 1, 1), v)) for v in (0, 1)
    )
    expected = rr.explainers.LRP(valid_range=(low, high))(net, model.normalise(x), y)
    torch.testing.assert_close(rr.explainers.LRP()(model, x, y), expected)

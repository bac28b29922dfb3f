import pytest
import torch

from rightreasons.errors import InvalidSettingError
from rightreasons.models import derma_net, plant_net


def test_the_papers_net():
    with torch.device("meta"):
        model = plant_net()
        logits = model(torch.zeros(1, 3, 213, 213))
    assert model.fc1.in_features == 173_056
    assert logits.shape == (1, 2)
    assert sum(p.numel() for p in model.parameters()) == 178_377_762


def test_layers_are_those_of_derma_net():
    assert str(plant_net(size=28)) == str(derma_net(size=28))


def test_image_too_small():
    with pytest.raises(InvalidSettingError, match="at least 6 x 6 pixels for plant_net"):
        plant_net(size=(5, 213))

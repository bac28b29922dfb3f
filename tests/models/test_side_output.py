import pytest
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import Abstaining, normalised
from rightreasons.models.layers import side_output


def test_found_wherever_it_is():
    net = Abstaining(nn.Linear(4, 3))
    assert side_output(net, "all_logits") == "all_logits"
    assert side_output(normalised(net, mean=0, deviation=1), "all_logits") == "net.all_logits"
    nested = nn.ModuleDict({"inner": nn.ModuleDict({"selection": nn.ReLU()}), "selection": net})
    assert side_output(nested, "selection") == "selection"  # the outermost


def test_a_model_without_it_is_told_what_to_use():
    with pytest.raises(InvalidSettingError, match="'all_logits', but Linear has none. Use the mod"):
        side_output(nn.Linear(2, 2), "all_logits")
    with pytest.raises(InvalidSettingError, match="or give a body of your own to SelectiveHeads"):
        side_output(nn.Linear(2, 2), "auxiliary_logits")
    with pytest.raises(InvalidSettingError, match="Use the model that has one"):
        side_output(nn.Linear(2, 2), "attention")

import torch
from safetensors.torch import load_file
from torch import nn

from rightreasons.certification import model_digest
from rightreasons.core.files import save_weights


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))


def test_the_same_weights_have_the_same_digest():
    assert model_digest(net().state_dict()) == model_digest(net().state_dict())
    assert len(model_digest(net().state_dict())) == 64


def test_every_weight_and_statistic_counts():
    digests = {model_digest(net().state_dict())}
    for name in net().state_dict():
        changed = net()
        tensor = changed.state_dict()[name]
        tensor.view(-1)[-1] += 1
        digests.add(model_digest(changed.state_dict()))
    assert len(digests) == len(net().state_dict()) + 1


def test_names_types_and_shapes_count():
    state = {"a": torch.zeros(2, 3)}
    others = [{"b": torch.zeros(2, 3)}, {"a": torch.zeros(3, 2)}, {"a": torch.zeros(2, 3).int()}]
    assert len({model_digest(other) for other in [state, *others]}) == 4


def test_the_order_of_names_and_the_layout_do_not_count():
    a, b = torch.rand(2, 3), torch.rand(4)
    one = model_digest({"a": a, "b": b})
    assert model_digest({"b": b, "a": a.T.contiguous().T}) == one


def test_a_weight_file_has_the_digest_of_its_model(tmp_path):
    save_weights(tmp_path / "model.safetensors", net())
    saved = load_file(tmp_path / "model.safetensors")
    assert model_digest(saved) == model_digest(net().state_dict())


def test_a_model_without_weights():
    assert model_digest({}) != model_digest({"a": torch.zeros(0)})

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError


class Output:
    def __init__(self, logits):
        self.logits = logits


class Classifier(nn.Module):
    """Takes keywords and gives an object, as classifiers of transformers do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 3)

    def forward(self, pixel_values=None, attention_mask=None, labels=None):
        x = pixel_values.flatten(1)
        return Output(self.head(x if attention_mask is None else x * attention_mask))


def test_a_classifier_of_transformers_takes_x_and_gives_logits():
    net = Classifier()
    model, x = rr.models.huggingface(net), torch.rand(2, 3, 2, 2)
    torch.testing.assert_close(model(x), net(pixel_values=x).logits)
    torch.testing.assert_close(model(x, attention_mask=0.0), net.head.bias.expand(2, 3))
    assert rr.models.huggingface(model) is model
    loss = rr.recipes.r3()(
        model, rr.Batch(x=x, y=torch.tensor([0, 2]), mask=torch.ones(2, 1, 2, 2))
    )
    loss.backward()
    assert net.head.weight.grad.abs().sum() > 0


def test_other_models_are_refused_with_what_they_take():
    class Backbone(Classifier):
        def forward(self, pixel_values):
            return {"last_hidden_state": pixel_values}

    with pytest.raises(InvalidBatchError, match="output has `.logits`, but Backbone gives dict"):
        rr.models.huggingface(Backbone())(torch.rand(2, 3, 2, 2))
    with pytest.raises(InvalidSettingError, match="that of Linear takes input"):
        rr.models.huggingface(nn.Linear(2, 2))
    with pytest.raises(InvalidSettingError, match="an nn.Module, but got str"):
        rr.models.huggingface("google/vit")


@pytest.mark.parametrize("positive", [0, 1])
def test_one_logit_stands_for_two_classes(positive):
    net, x, y = nn.Linear(3, 1), torch.randn(8, 3), torch.arange(8) % 2
    model = rr.models.binary(net, positive=positive)
    logits = model(x)
    torch.testing.assert_close(logits.softmax(dim=1)[:, positive], net(x).sigmoid()[:, 0])
    expected = nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], (y == positive).float())
    torch.testing.assert_close(nn.functional.cross_entropy(logits, y), expected)
    assert set(model.state_dict()) == {"net.weight", "net.bias"}
    flat = rr.models.binary(nn.Sequential(net, nn.Flatten(0)), positive=positive)
    torch.testing.assert_close(flat(x), logits)


def test_what_is_not_one_logit_is_refused():
    with pytest.raises(InvalidBatchError, match=r"shape \(4, 1\), but got \(4, 2\)"):
        rr.models.binary(nn.Linear(3, 2))(torch.rand(4, 3))
    with pytest.raises(InvalidBatchError, match="ends in sigmoid"):
        rr.models.binary(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()))(torch.rand(4, 3))
    with pytest.raises(InvalidSettingError, match="`positive` to be 0 or 1, but got 2"):
        rr.models.binary(nn.Linear(3, 1), positive=2)


def test_a_binary_model_can_be_certified():
    torch.manual_seed(0)
    net = rr.models.binary(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)))
    mask = torch.zeros(5, 1, 2, 2)
    mask[..., 0] = 1
    batch = rr.Batch(x=torch.rand(5, 1, 2, 2), y=torch.arange(5) % 2, mask=mask)
    certificate = rr.certify(net, batch, epsilon=1e-4)
    assert {one.status for one in certificate.samples} == {"verified"}

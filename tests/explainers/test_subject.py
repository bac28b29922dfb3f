import pytest
import torch
from torch import nn

from rightreasons import explainers
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers.subject import Subject

PADDING = 0


class TokenNet(nn.Module):
    """Embeds positions and words; padding is left out of the mean, so that it needs the tokens."""

    def __init__(self):
        super().__init__()
        self.positions, self.words = nn.Embedding(6, 4), nn.Embedding(9, 4)
        self.hidden, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, tokens):
        positions = self.positions(torch.arange(tokens.shape[1]).expand_as(tokens))
        hidden = nn.functional.softplus(self.hidden(self.words(tokens) + positions))
        kept = (tokens != PADDING).to(hidden.dtype)[:, :, None]
        return self.head(self.drop((hidden * kept).sum(dim=1) / kept.sum(dim=1)))


@pytest.fixture
def net():
    return TokenNet().double()


@pytest.fixture
def tokens():
    return torch.tensor([[3, 5, 1, 0], [2, 8, 8, 4], [7, 0, 0, 0]])


EXPLAINERS = {
    "input_gradient": explainers.InputGradient(),
    "input_times_gradient": explainers.InputTimesGradient(),
    "smooth_grad": explainers.SmoothGrad(num_draws=3, max_rows=4),
    "integrated_gradients": explainers.IntegratedGradients(num_steps=3, max_rows=2),
    "guided_backprop": explainers.GuidedBackprop(),
}


@pytest.mark.parametrize("name", EXPLAINERS)
def test_embeddings_of_tokens_are_explained(name, net, tokens, y):
    attribution = EXPLAINERS[name](net, tokens, y)
    assert attribution.shape == (3, 4, 4)
    assert attribution[0, 3].abs().sum() == 0  # padding
    assert (attribution[tokens != PADDING].abs().sum(dim=1) > 0).all()
    for n in range(3):
        alone = EXPLAINERS[name](net, tokens[n : n + 1], y[n : n + 1])
        torch.testing.assert_close(alone[0], attribution[n])
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert all(module.training for module in net.modules())


@pytest.mark.parametrize("name", EXPLAINERS)
def test_their_gradient_reaches_every_weight_and_is_right(name, net, tokens, y):
    explain = EXPLAINERS[name]
    parameters = list(net.parameters())
    total = explain(net, tokens, y, create_graph=True).square().sum()
    slopes = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    for parameter, slope in zip(parameters, slopes, strict=True):
        direction, ends = torch.randn_like(parameter), []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter += step * direction
            ends.append(explain(net, tokens, y).square().sum().item())
            with torch.no_grad():
                parameter -= step * direction
        expected = (ends[0] - ends[1]) / 2e-6
        assert float((slope * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert slopes[1].abs().sum() > 0  # the words' embedding


def test_the_gradient_is_that_of_the_embeddings(net, tokens, y):
    net.eval()
    given = net.words(tokens).detach().requires_grad_()
    kept = (tokens != PADDING).double()[:, :, None]
    hidden = nn.functional.softplus(net.hidden(given + net.positions.weight[:4]))
    logits = net.head((hidden * kept).sum(dim=1) / kept.sum(dim=1))
    (expected,) = torch.autograd.grad(logits.gather(1, y[:, None]).sum(), given)
    torch.testing.assert_close(explainers.InputGradient()(net, tokens, y), expected)


def test_completeness_holds_for_embeddings(net, tokens, y):
    gap = explainers.IntegratedGradients(num_steps=12).completeness_gap(net, tokens, y)
    assert gap.abs().max() < 1e-8


def test_rows_of_copies_know_their_sample(net, tokens, y):
    subject = Subject(net, tokens, y, create_graph=False)
    rows = torch.tensor([2, 0, 2])
    probe = subject.probe(subject.features[rows], rows, layers=["hidden"])
    torch.testing.assert_close(probe.logits, net.eval()(tokens[rows]))
    assert probe.activations["hidden"].shape == (3, 4, 5)
    assert torch.equal(probe.batch.y, y[rows])


def test_the_first_pass_tells_the_classes(net, tokens):
    passes = []
    net.head.register_forward_hook(lambda *_: passes.append(1))
    subject = Subject(net, tokens, None, create_graph=False)
    probe = subject.probe()
    assert torch.equal(probe.batch.y, probe.logits.argmax(dim=1))
    assert torch.equal(subject.y, probe.batch.y)
    assert len(passes) == 1


def test_classes_that_no_pass_told_take_one(net, tokens):
    subject, rows = Subject(net, tokens, None, create_graph=False), torch.tensor([2, 0])
    probe = subject.probe(subject.features[rows], rows)
    assert torch.equal(probe.batch.y, net.eval()(tokens).argmax(dim=1)[rows])


def test_features_of_numbers_are_the_numbers(y):
    x = torch.rand(3, 5, requires_grad=True)
    model = nn.Linear(5, 3)
    assert Subject(model, x, y, create_graph=True).features is x
    assert not Subject(model, x, y, create_graph=False).features.requires_grad


def test_integers_nobody_embeds(y):
    for model in (nn.Linear(4, 3), nn.Sequential(nn.Flatten(), Positions())):
        with pytest.raises(InvalidBatchError, match="token ids that an nn.Embedding.*no such"):
            explainers.InputGradient()(model, torch.ones(3, 4, dtype=torch.int64), y)
        assert not any(module._forward_pre_hooks for module in model.modules())


class Positions(nn.Module):
    """Embeds positions, not tokens."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3)

    def forward(self, tokens):
        return self.table(torch.arange(4)).sum(dim=0).expand(len(tokens), -1)


@pytest.mark.parametrize("explain", [explainers.LRP(), explainers.GradCAM()])
def test_explainers_that_cannot_read_tokens_say_so(explain, net, tokens, y):
    words = f"floating point `x` for {type(explain).__name__}, but got token ids"
    with pytest.raises(InvalidBatchError, match=words):
        explain(net, tokens, y)

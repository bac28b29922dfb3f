"""Products of linear layers that are read again, against passes that compute them."""

import pytest
import torch
from tests.token_nets import NETS, text_data, texts
from torch import nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.core import memory
from rightreasons.objectives import TokenRandR4
from rightreasons.objectives.linear_record import LinearRecord

pytestmark = pytest.mark.usefixtures("one_thread")


class Shared(nn.Module):
    """A layer that is used twice, one without a bias, and one that reads no features."""

    def __init__(self):
        super().__init__()
        self.twice, self.last = nn.Linear(4, 4), nn.Linear(4, 2, bias=False)
        self.place = nn.Parameter(torch.randn(3, 5, 4))

    def forward(self, x):
        x = torch.tanh(self.twice(x)) + self.twice(self.place[: len(x)])
        return functional.softplus(self.last(torch.tanh(self.twice(x)))).sum(dim=(1, 2))


class InPlace(Shared):
    """Writes over the output of a layer."""

    def forward(self, x):
        y = self.last(self.twice(x))
        y += 1
        return functional.softplus(y).sum(dim=(1, 2))


def penalty(net, x, weights):
    (gradient,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    return gradient, weights * gradient.square()


@pytest.mark.parametrize("kind", [Shared, InPlace])
def test_a_pass_that_reads_equals_one_that_computes(kind):
    torch.manual_seed(0)
    net = kind().double()
    x = torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(3, 5, 4, dtype=torch.float64)
    plain, expected = penalty(net, x, weights)
    gradients = torch.autograd.grad(expected.sum(), [x, *net.parameters()], allow_unused=True)
    record = LinearRecord()
    with record.keep(0, (3, 5)):
        torch.autograd.grad(net(x).sum(), x)
    calls = sum(product.is_whole for product in record.parts[0])
    assert calls == (3 if kind is Shared else 1)
    with record.read(0, (3, 5)):
        read, found = penalty(net, x, weights)
    torch.testing.assert_close(read, plain)
    others = torch.autograd.grad(found.sum(), [x, *net.parameters()], allow_unused=True)
    for one, other in zip(gradients, others, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_the_better_of_two_texts_is_read():
    torch.manual_seed(0)
    net = Shared().double()
    both = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    records = [LinearRecord(), LinearRecord()]
    for record, x in zip(records, both, strict=True):
        leaf = x.clone().requires_grad_()
        with record.keep(0, (3, 5)):
            torch.autograd.grad(net(leaf).sum(), leaf)
    better = torch.tensor([True, False, True])
    records[0].take(records[1], better)
    x = torch.where(better[:, None, None], both[1], both[0]).requires_grad_()
    (expected,) = torch.autograd.grad(net(x).sum(), x)
    with records[0].read(0, (3, 5)), torch.no_grad():
        known = [product.output for product in records[0].parts[0]]
    torch.testing.assert_close(known[0], net.twice(x))
    torch.testing.assert_close(records[0].parts[0][0].gradient, expected)


def test_another_way_through_the_model_is_computed():
    layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
    x = torch.randn(3, 5, 4, requires_grad=True)
    records = [LinearRecord(), LinearRecord()]
    for record, number in zip(records, (1, 2), strict=True):
        with record.keep(0, (3, 5)):
            y = x
            for layer in layers[:number]:
                y = layer(y)
            torch.autograd.grad(y.sum(), x)
    assert [len(record.parts[0]) for record in records] == [1, 2]
    records[0].take(records[1], torch.ones(3).bool())
    assert records[0].parts[0] == []


@pytest.mark.parametrize("size", [(5, 3), (4, 4), (3, 4)])
def test_rows_that_no_size_tells_apart_are_not_written_down(size):
    layer, record = nn.Linear(2, 2), LinearRecord()
    x = torch.randn(4, 4, 2) if size == (4, 4) else torch.randn(3, 5, 2)
    with record.keep(0, size):
        layer(x)
    assert record.parts[0] == []


def test_a_transformer_reads_and_makes_fewer_products(monkeypatch):
    batch, counts = texts(), []
    net = NETS["bert, sdpa"]().eval()
    budgets = iter((1, 2**40))
    monkeypatch.setattr(
        "rightreasons.objectives.token_r4.budget_of", lambda *_, **__: next(budgets)
    )
    for _ in range(2):
        term = TokenRandR4(num_samples=3, share=0.6)
        term.prepare(text_data(), num_passes=1)
        torch.manual_seed(0)
        loss = term(rr.Probe(net, batch)).sum()
        net.zero_grad()
        with torch.profiler.profile() as profiled:
            loss.backward()
        products = [one for one in profiled.events() if one.name in ("aten::mm", "aten::addmm")]
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        counts.append((len(products), loss.detach(), gradients))
    (many, loss, gradients), (few, same_loss, same) = counts
    assert many - few >= 10  # six layers, and their inputs' gradients
    torch.testing.assert_close(loss, same_loss)
    for one, other in zip(gradients, same, strict=True):
        torch.testing.assert_close(one, other)


def test_parts_of_another_size_are_computed():
    torch.manual_seed(0)
    net, record = Shared(), LinearRecord()
    x = torch.randn(3, 5, 4, requires_grad=True)
    with record.keep(0, (3, 5)):
        torch.autograd.grad(net(x).sum(), x)
    with record.read(0, (2, 5)):
        found = net(x[:2])
    torch.testing.assert_close(found, net(x)[:2])


def test_parts_are_read_as_they_were_written(monkeypatch):
    batch, found = texts().padded(9), []
    net = NETS["bert, sdpa"]().eval()
    for bytes_a_pass in (2**23, 2 * memory.pass_bytes(net, batch.x, batch.inputs).largest):
        monkeypatch.setattr(memory, "CACHED", bytes_a_pass)
        term = TokenRandR4(num_samples=3, share=0.6)
        term.prepare(text_data(), num_passes=1)
        torch.manual_seed(0)
        net.zero_grad()
        loss = term(rr.Probe(net, batch)).sum()
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in net.parameters() if p.grad is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)

import torch
from torch import nn

import rightreasons as rr
from rightreasons.objectives import R3, CrossEntropy, Term
from rightreasons.objectives.objective import stopping_at


def test_backward_stops_where_it_is_told_and_nowhere_else():
    wanted, other = (torch.ones(1, requires_grad=True) for _ in range(2))
    total = stopping_at((2 * wanted + 3 * other).sum(), [wanted])
    total.backward(retain_graph=True)
    assert (wanted.grad.item(), other.grad) == (2.0, None)
    total.backward(inputs=[other], retain_graph=True)
    assert other.grad.item() == 3.0
    (total * 1.0).backward()
    assert (wanted.grad.item(), other.grad.item()) == (4.0, 6.0)
    assert type(total * 1.0) is torch.Tensor


def test_without_stops_it_is_the_same_tensor():
    total = torch.ones(1, requires_grad=True).sum()
    assert stopping_at(total, None) is total


def test_the_gradient_of_the_input_is_not_computed(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    seen = []

    class Watch(Term):
        needs_gradient = True

        def forward(self, probe):
            probe.features.register_hook(seen.append)
            return probe.gradient().square().flatten(1).sum(dim=1)

    loss = (CrossEntropy() + 1.0 * Watch())(model, tiny_batch)
    seen.clear()  # the hook sees the first-order gradient too
    loss.total.backward()
    assert not seen
    assert model[1].weight.grad.abs().sum() > 0


def test_parameters_of_terms_get_their_gradient(tiny_net, tiny_batch):
    class Scaled(Term):
        needs_gradient = True

        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, probe):
            return self.scale * probe.gradient().square().flatten(1).sum(dim=1)

    term = Scaled()
    (CrossEntropy() + 1.0 * term)(tiny_net, tiny_batch).total.backward()
    assert term.scale.grad > 0


def test_inputs_that_want_a_gradient_get_it(tiny_net, tiny_batch):
    tiny_net.eval()
    x = tiny_batch.x.clone().requires_grad_()
    batch = rr.Batch.trusted(x=x, y=tiny_batch.y, mask=tiny_batch.mask)
    (CrossEntropy() + 1.0 * R3())(tiny_net, batch).total.backward()
    assert x.grad.abs().sum() > 0

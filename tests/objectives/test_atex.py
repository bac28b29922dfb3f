import pytest
import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import ATEX


def drawn(x, epsilon):
    torch.manual_seed(5)
    along = torch.rand(len(x), dtype=x.dtype) - 0.5
    return along, torch.empty_like(x).uniform_(-epsilon, epsilon)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_equals_its_slow_twin(tiny_net, tiny_batch, temperature):
    tiny_net.eval()
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(32, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = ATEX(teacher=teacher, epsilon=0.3, temperature=temperature)(probe)
    along, noise = drawn(tiny_batch.x, 0.3)
    for n in range(len(tiny_batch)):
        x, y = tiny_batch.x[n], int(tiny_batch.y[n])
        gradient = terms.input_gradient(teacher, x, y, terms.logit_of)
        start = x + along[n] * 0.3 * gradient / gradient.abs().max()
        unit = gradient / gradient.square().sum().sqrt()
        moved = start + noise[n] - (noise[n] * unit).sum() * unit
        with torch.no_grad():
            expected = (teacher(start[None])[0] / temperature).tolist()
            given = tiny_net(moved[None])[0].tolist()
        assert ours[n].item() == pytest.approx(terms.divergence(expected, given), rel=1e-4)


def test_by_default_the_model_is_its_own_constant_teacher(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    own = ATEX(epsilon=0.3)(probe)
    torch.manual_seed(5)
    copied = ATEX(epsilon=0.3, teacher=tiny_net)(probe)
    torch.testing.assert_close(own, copied)
    slopes = [
        torch.autograd.grad(losses.sum(), tiny_net.parameters(), allow_unused=True)
        for losses in (own, copied)
    ]
    for left, right in zip(*slopes, strict=True):
        torch.testing.assert_close(left, right)


def test_the_teacher_is_frozen_and_saved():
    teacher = nn.Linear(3, 2)
    term = ATEX(teacher=teacher)
    assert teacher.weight.requires_grad
    assert not term.teacher.weight.requires_grad
    assert set(term.state_dict()) == {"teacher.weight", "teacher.bias"}
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `temperature`"):
        ATEX(temperature=0)


def test_texts_are_moved_in_their_embeddings():
    """Embeddings that do not depend on tokens make texts what images are."""
    torch.manual_seed(0)
    table = nn.Embedding(9, 3).double()
    head = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Softplus(), nn.Linear(8, 2)).double()
    tokens, y = torch.randint(9, (5, 4)), torch.tensor([0, 1, 0, 1, 0])
    values = []
    for net, x in ((nn.Sequential(table, head), tokens), (head, table(tokens).detach())):
        torch.manual_seed(1)
        loss = ATEX().as_objective()(
            net, rr.Batch(x=x, y=y, mask=torch.ones(5, 4, *[1] * (x.ndim - 2)))
        )
        values.append(loss.total.detach())
    torch.testing.assert_close(*values)
    text = rr.Batch(x=tokens, y=y)
    with pytest.raises(rr.errors.InvalidBatchError, match="`x` for a teacher, but got token ids"):
        ATEX(teacher=head).as_objective()(nn.Sequential(table, head), text)

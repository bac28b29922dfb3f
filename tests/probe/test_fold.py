import gc
import weakref

import pytest
import torch
from torch import fx, nn

import rightreasons as rr
from rightreasons.probe.masked import fold_of


class Views(nn.Module):
    """Flattens by hand and branches behind the first layer."""

    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        z = self.first(x.view(x.size(0), -1))
        return self.left(torch.tanh(z)) + self.right(torch.relu(z))


class Twice(nn.Module):
    """Uses its first layer twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(self.first(x.flatten(1)))


class Skips(nn.Module):
    """Uses the input again behind the first layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x.flatten(1)) + x.flatten(1)


class Doubles(nn.Module):
    """Changes the input before the first layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(2 * x.flatten(1))


class Decides(nn.Module):
    """Cannot be traced."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 2)

    def forward(self, x):
        z = self.first(x.flatten(1))
        return z if z.sum() > 0 else -z


class Keeps(nn.Module):
    """Remembers what it saw."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 2)
        self.seen = None

    def forward(self, x):
        self.seen = x
        return self.first(x.flatten(1))


X = torch.rand(5, 1, 2, 2)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), "1"),
        (rr.models.mlp(inputs=4, hidden=(3, 3), classes=2), "1"),
        (Views(), "first"),
    ],
)
def test_halves_give_what_the_whole_gives(model, name):
    fold = fold_of(model, X)
    assert fold.name == name
    assert fold.layer is dict(model.named_modules())[name]
    torch.testing.assert_close(fold.tail(fold.layer(X.flatten(1))), model(X), rtol=0, atol=0)


@pytest.mark.parametrize(
    "model",
    [
        Twice(),
        Skips(),
        Doubles(),
        Decides(),
        nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(4, 2)),
        nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_nets_that_do_not_begin_with_a_linear_layer_have_none(model):
    x = X - 0.5
    assert fold_of(model, x) is None


def test_is_found_once_and_again_when_a_layer_is_exchanged():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    first = fold_of(model, X)
    assert fold_of(model, X) is first
    model[3] = nn.Linear(3, 5)
    assert fold_of(model, X).tail(torch.rand(2, 3)).shape == (2, 5)


def test_a_watched_layer_is_left_alone():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    assert fold_of(model, X) is not None
    handle = model[1].register_forward_hook(lambda *_: None)
    assert fold_of(model, X) is None
    handle.remove()
    assert fold_of(model, X) is not None


def test_does_not_keep_models_alive_and_leaves_them_as_they_were():
    model = Keeps()
    assert fold_of(model, X) is not None
    assert not isinstance(model.seen, fx.Proxy)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None

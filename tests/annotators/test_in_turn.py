import torch

from rightreasons.annotators.annotator import InTurn, in_turn
from rightreasons.datasets import Augmented, Selected


def seen(data, like):
    """Which of the samples ``like`` those of ``data`` are."""
    x = data.take(torch.arange(len(data))).x
    return [int((like == one).flatten(1).all(dim=1).nonzero()) for one in x]


def test_what_fits_into_an_epoch_is_repeated_in_its_order(make_squares):
    data = make_squares(24)
    for num in (24, 30):
        whole = in_turn(data, num=num, seed=3)
        expected = Selected(data, torch.arange(num) % 24)
        assert whole.digest() == expected.digest()
        for epoch in (0, 1):
            assert seen(whole.at_epoch(epoch), data.batch.x) == [n % 24 for n in range(num)]


def test_more_than_an_epoch_has_place_for_all_have_their_turn(make_squares):
    data = make_squares(24)
    some = in_turn(data, num=10, seed=3)
    assert isinstance(some, InTurn) and len(some) == 10
    epochs = [seen(some.at_epoch(epoch), data.batch.x) for epoch in range(12)]
    assert all(len(set(epoch)) == 10 for epoch in epochs)
    assert len(set(epochs[0] + epochs[1])) == 20
    assert set(epochs[0] + epochs[1] + epochs[2]) == set(range(24))
    counts = torch.bincount(torch.tensor(epochs).flatten())
    assert counts.tolist() == [5] * 24
    assert seen(some, data.batch.x) == epochs[0] != sorted(epochs[0])


def test_the_seed_decides_the_order_and_the_digest(make_squares):
    data = make_squares(24)
    first, again, other = (in_turn(data, num=10, seed=seed) for seed in (1, 1, 2))
    assert seen(first, data.batch.x) == seen(again, data.batch.x) != seen(other, data.batch.x)
    assert first.digest() == again.digest() != other.digest()


def test_what_is_below_is_at_the_same_epoch(make_squares):
    data = Augmented(make_squares(24), crop=2, seed=0)
    epoch = in_turn(data, num=10).at_epoch(5)
    places = epoch.places
    assert torch.equal(epoch.take(torch.arange(10)).x, data.at_epoch(5).take(places).x)

import torch

from rightreasons.core.rng import random_stream
from rightreasons.datasets import Card
from rightreasons.datasets.splitting import group_counts, in_memory_splits, stratified_split
from rightreasons.types import Batch


def test_every_sample_goes_to_exactly_one_part():
    y = torch.randint(7, (997,), generator=torch.Generator().manual_seed(0))
    parts = stratified_split(y, sizes=[100, 0, 250], stream=random_stream(0))
    assert [len(part) for part in parts] == [100, 0, 250, 647]
    assert torch.cat(parts).sort().values.tolist() == list(range(997))


def test_labels_have_the_same_share_everywhere():
    y = torch.cat([torch.zeros(900, dtype=torch.long), torch.ones(90, dtype=torch.long)])
    for part in stratified_split(y, sizes=[110, 220], stream=random_stream(1)):
        assert abs(int(y[part].sum()) - len(part) / 11) <= 1


def test_the_draw_is_random_within_a_label_and_repeats_with_the_stream():
    y = torch.zeros(100, dtype=torch.long)
    first, again, other = (
        stratified_split(y, sizes=[50], stream=random_stream(seed))[0].tolist()
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first != list(range(50))


def test_groups_are_counted_without_the_unknown():
    assert group_counts(torch.tensor([0, 2, 2, -1]), 4) == (1, 0, 2, 0)
    assert group_counts(None, 3) == ()


def test_all_parts_share_the_card_with_the_training_counts():
    train = Batch(x=torch.zeros(3, 2), y=torch.tensor([0, 1, 1]), group=torch.tensor([1, 1, 0]))
    test = Batch(x=torch.zeros(1, 2), y=torch.tensor([0]), group=torch.tensor([0]))
    card = Card(classes=("no", "yes"), groups=("a", "b"))
    splits = in_memory_splits(train=train, val=None, test=test, card=card)
    assert splits.val is None
    assert splits.train.card == splits.test.card == splits.card
    assert splits.card.train_group_counts == (1, 2)

import torch

from rightreasons.datasets import biased_mnist

BLUE, RED = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, 0.0])


def squares_of(part, corner=slice(4), colour=BLUE):
    inside = part.batch.x[:, :, corner, corner]
    return (inside == colour.reshape(1, 3, 1, 1)).flatten(1).all(dim=1)


def test_the_square_tells_the_class_of_most(npz_dir, tiny_mnist):
    data = biased_mnist(npz_dir, validation=100, share=0.9)
    assert (len(data.train), len(data.val), len(data.test)) == (300, 100, 300)
    for part in (data.train, data.val):
        has, y = squares_of(part), part.labels
        assert 0.8 < has[y == 0].float().mean() < 1
        assert 0 < has[y == 1].float().mean() < 0.3
        assert torch.equal(part.groups, 2 * y + has)
    assert data.test.labels.tolist() == (tiny_mnist["y_test"] >= 5).astype(int).tolist()


def test_both_test_sets(npz_dir, tiny_mnist):
    data = biased_mnist(npz_dir, validation=0)
    assert data.val is None
    assert not squares_of(data.test).any()
    biased = data.more_tests["biased"]
    assert torch.equal(squares_of(biased), biased.labels == 1)
    grey = torch.from_numpy(tiny_mnist["x_test"]).float() / 255
    for channel in range(3):
        assert torch.equal(data.test.batch.x[:, channel], grey)
        assert torch.equal(biased.batch.x[:, channel, 4:], grey[:, 4:])
    swapped = biased_mnist(npz_dir, validation=0, test="biased")
    assert swapped.test.digest() == biased.digest()
    assert swapped.more_tests["original"].digest() == data.test.digest()
    assert swapped.digest() != data.digest()


def test_two_squares_are_dealt_out_apart(npz_dir):
    data = biased_mnist(npz_dir, validation=0, squares=2, share=0.7)
    blue = squares_of(data.train)
    red = squares_of(data.train, slice(-4, None), RED)
    assert {(bool(a), bool(b)) for a, b in zip(blue, red, strict=True)} == {
        (a, b) for a in (False, True) for b in (False, True)
    }
    assert torch.equal(data.train.groups, 4 * data.train.labels + blue + 2 * red)
    assert data.card.groups[1:3] == ("0-4, blue", "0-4, red")
    biased = data.more_tests["biased"]
    assert torch.equal(squares_of(biased, slice(-4, None), RED), biased.labels == 1)
    assert data.train.batch.mask.sum(dim=(1, 2, 3)).unique().tolist() == [32]


def test_the_mask_is_where_squares_may_be(npz_dir):
    mask = biased_mnist(npz_dir, validation=0).train.batch.mask
    assert mask.sum(dim=(1, 2, 3)).unique().tolist() == [16]
    assert (mask[:, :, :4, :4] == 1).all()


def test_a_subset_for_quick_runs(npz_dir):
    data = biased_mnist(npz_dir, validation=100, subset=50)
    assert (len(data.train), len(data.val)) == (50, 100)

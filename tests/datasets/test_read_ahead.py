import multiprocessing

import pytest
import torch

from rightreasons.datasets.parallel import read_ahead
from rightreasons.errors import DatasetCorruptError
from rightreasons.types import Batch

pytestmark = [  # on machines with one processor, and on Python 3.12
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROWS = [torch.tensor([3, 1]), torch.tensor([0]), torch.tensor([2, 2, 1])]


def take(rows):
    return Batch(x=rows[:, None].float(), y=rows, index=rows)


def bad_take(rows):
    if 0 in rows:
        raise DatasetCorruptError("row 2, a.png: no such file")
    return take(rows)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(workers):
    batches = list(read_ahead(take, iter(ROWS), workers=workers))
    assert [batch.index.tolist() for batch in batches] == [rows.tolist() for rows in ROWS]
    assert batches[2].x.tolist() == [[2.0], [2.0], [1.0]]
    assert batches[0].mask is None


@pytest.mark.parametrize("workers", [0, 2])
def test_the_global_random_state_is_left_alone(workers):
    before = torch.get_rng_state()
    list(read_ahead(take, ROWS, workers=workers))
    assert torch.equal(torch.get_rng_state(), before)


def test_workers_end_when_the_iterator_is_closed():
    already = multiprocessing.active_children()
    batches = read_ahead(take, ROWS * 50, workers=2)
    next(batches)
    started = [child for child in multiprocessing.active_children() if child not in already]
    assert len(started) == 2
    batches.close()
    assert not any(child.is_alive() for child in started)


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_keep_their_words(workers):
    batches = read_ahead(bad_take, ROWS, workers=workers)
    next(batches)
    with pytest.raises(DatasetCorruptError, match="^row 2, a.png: no such file$"):
        next(batches)

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import rightreasons as rr
from rightreasons.training.distributed import launch_fabric
from rightreasons.training.schedule import Schedule
from rightreasons.training.state import Progress

shapes = st.tuples(
    st.integers(1, 60), st.integers(1, 20), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3)
)


def updates_of_all(size, batch_size, accumulate, world_size, epoch):
    """For each update, what each process does in it."""
    schedules = [
        Schedule(size, batch_size, accumulate, seed=1, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    return list(zip(*(schedule.updates(epoch) for schedule in schedules), strict=True))


@given(shapes)
def test_every_sample_counts_exactly_once(shape):
    size, *_ = shape
    counted = [
        row
        for update in updates_of_all(*shape)
        for process in update
        for micro in process
        if micro.share
        for row in micro.rows.tolist()
    ]
    assert sorted(counted) == list(range(size))


@given(shapes)
def test_the_average_over_processes_is_the_mean_over_the_samples_of_an_update(shape):
    size, _, _, world_size, _ = shape
    losses = torch.arange(1, size + 1, dtype=torch.float64).square()
    for update in updates_of_all(*shape):
        micros = [micro for process in update for micro in process]
        average = sum(micro.share * losses[micro.rows].mean() for micro in micros) / world_size
        rows = torch.cat([micro.rows for micro in micros if micro.share])
        assert float(average) == pytest.approx(float(losses[rows].mean()))


@given(shapes)
def test_all_processes_take_part_in_every_batch(shape):
    """Else one would wait for the others for ever."""
    size, batch_size, accumulate, world_size, _ = shape
    updates = updates_of_all(*shape)
    schedule = Schedule(size, batch_size, accumulate, seed=1, rank=0, world_size=world_size)
    assert len(updates) == schedule.num_updates
    for update in updates:
        assert len({len(process) for process in update}) == 1
        assert 1 <= len(update[0]) <= accumulate
        assert all(len(micro.rows) for process in update for micro in process)


@given(shapes)
def test_the_number_of_processes_does_not_change_which_samples_meet(shape):
    size, batch_size, accumulate, _, epoch = shape
    alone = updates_of_all(size, batch_size, accumulate, 1, epoch)
    for one, many in zip(alone, updates_of_all(*shape), strict=True):
        for step, micro in enumerate(one[0]):
            assert len(micro.rows) <= batch_size + 1
            parts = [process[step] for process in many]
            together = torch.cat([part.rows for part in parts if part.share])
            assert sorted(together.tolist()) == sorted(micro.rows.tolist())


def test_batches_have_their_size_but_the_last():
    schedule = Schedule(size=10, batch_size=3, accumulate=2, seed=0, rank=0, world_size=1)
    sizes = [[len(micro.rows) for micro in update] for update in schedule.updates(0)]
    assert sizes == [[3, 3], [4]]  # the tenth sample is not left by itself
    shares = [[micro.share for micro in update] for update in schedule.updates(0)]
    assert shares == [[0.5, 0.5], [1.0]]
    last = Schedule(size=11, batch_size=3, accumulate=2, seed=0, rank=0, world_size=1).updates(0)[
        -1
    ]
    assert [len(micro.rows) for micro in last] == [3, 2]


def test_a_process_without_samples_looks_on():
    schedule = Schedule(size=2, batch_size=2, accumulate=1, seed=0, rank=2, world_size=3)
    ((micro,),) = schedule.updates(0)
    assert len(micro.rows) == 1
    assert micro.share == 0


def order(seed, epoch):
    schedule = Schedule(size=50, batch_size=50, accumulate=1, seed=seed, rank=0, world_size=1)
    return schedule.updates(epoch)[0][0].rows.tolist()


def test_the_order_depends_on_seed_and_epoch_alone():
    torch.manual_seed(5)
    first = order(seed=1, epoch=0)
    torch.manual_seed(6)
    assert order(seed=1, epoch=0) == first
    found = {tuple(order(seed, epoch)) for seed in range(10) for epoch in range(10)}
    assert len(found) == 100


def test_making_an_order_draws_nothing_from_the_global_generator():
    before = torch.get_rng_state()
    order(seed=1, epoch=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def loss():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]), mask=torch.ones(4, 3))
    return rr.recipes.r3()(nn.Linear(3, 2), batch), batch


def test_sums_become_means_over_samples(loss):
    loss, batch = loss
    progress = Progress()
    for _ in range(2):
        progress.count(loss, batch.y)
    progress.step(3.0)
    progress.step(5.0)
    means = progress.means(launch_fabric("cpu", 1, "32-true"))
    correct = (loss.logits.argmax(dim=1) == batch.y).float().mean()
    assert means["accuracy"] == pytest.approx(correct.item())
    assert means["parts/r3"] == pytest.approx(loss.parts["r3"].item())
    assert means["gradient_norm"] == 4.0


def test_a_model_of_a_single_class_has_no_accuracy():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.zeros(4).long())
    progress = Progress()
    progress.count(rr.recipes.erm()(nn.Linear(3, 1), batch), batch.y)
    progress.step(1.0)
    assert "accuracy" not in progress.means(launch_fabric("cpu", 1, "32-true"))


def test_an_epoch_begins_empty(loss):
    loss, batch = loss
    progress = Progress()
    progress.count(loss, batch.y)
    progress.step(1.0)
    progress.gradient_norms = {"r3": 1.0}
    progress.next_epoch()
    assert (progress.epoch, progress.update) == (1, 0)
    assert not progress.sums
    assert not progress.gradient_norms


def test_a_position_is_plain_values_that_a_checkpoint_can_hold(loss, tmp_path):
    loss, batch = loss
    progress = Progress(epoch=2, history=[{"epoch": 1}])
    progress.count(loss, batch.y)
    torch.save(progress.state(), tmp_path / "progress.pt")
    saved = torch.load(tmp_path / "progress.pt", weights_only=True)
    assert saved["pulls"] == {}  # the name that checkpoints have for it
    assert Progress.from_state(saved) == progress

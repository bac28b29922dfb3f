import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.training.distributed import launch_fabric
from rightreasons.training.state import Progress


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

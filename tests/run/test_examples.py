import numpy as np
import torch
from torch import nn

import rightreasons as rr
from rightreasons.run.run import write_examples


def test_data_without_masks_give_no_mask(tmp_path):
    data = rr.datasets.InMemory(rr.Batch(x=torch.rand(5, 3), y=torch.tensor([0, 1, 0, 1, 1])))
    model = nn.Linear(3, 2)
    write_examples(tmp_path / "examples.npz", model, data)
    examples = np.load(tmp_path / "examples.npz")
    assert set(examples) == {"x", "y", "index", "prediction", "probability", "attribution"}
    assert examples["y"].tolist() == [0, 0, 1, 1, 1]
    rows = model.weight.detach().numpy()[examples["prediction"]]
    np.testing.assert_allclose(examples["attribution"], rows, rtol=1e-6)
    assert model.weight.grad is None

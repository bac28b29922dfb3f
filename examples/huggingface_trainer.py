"""A classifier of Hugging Face's transformers, trained on an objective by its `Trainer`.

The net is built from a configuration, so that nothing is downloaded; ``from_pretrained`` gives one
with weights. Usage: ``python examples/huggingface_trainer.py``, which needs
``pip install transformers accelerate``.
"""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    ResNetConfig,
    ResNetForImageClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

import rightreasons as rr


class ObjectiveTrainer(rr.integrations.ObjectiveMixin, Trainer):
    """A `Trainer` whose loss is an objective."""


class Images(Dataset):
    """Images whose right half is brighter in class 1, with a corner that tells the class, too."""

    def __init__(self, num_images: int = 32) -> None:
        self.y = torch.arange(num_images) % 2
        self.x = 0.5 * torch.rand(num_images, 3, 16, 16)
        self.x[self.y == 1, :, :, 8:] += 0.2
        self.x[:, :, :4, :4] = self.y.reshape(-1, 1, 1, 1).float()
        self.mask = torch.zeros(num_images, 1, 16, 16)
        self.mask[:, :, :4, :4] = 1  # 1 where the model must not look

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.x[row], "labels": self.y[row], "mask": self.mask[row]}


if __name__ == "__main__":
    set_seed(0)
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    net = ResNetForImageClassification(
        ResNetConfig(num_labels=2, layer_type="basic", downsample_in_first_stage=False, **sizes)
    )
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            remove_unused_columns=False,  # else Trainer drops the masks
            num_train_epochs=2,
            per_device_train_batch_size=8,
            logging_steps=4,
            report_to="none",
            use_cpu=True,
        )
        trainer = ObjectiveTrainer(
            net,
            args,
            objective=rr.recipes.reff(),
            train_dataset=Images(),
            eval_dataset=Images(),
        )
        trainer.train()
        print(trainer.evaluate())

"""Hugging Face's `Trainer` with an objective as its loss."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from rightreasons.core.files import load_checkpoint, save_checkpoint
from rightreasons.core.model_modes import (
    innermost,
    refuse_wrappers,
    statistics_of,
    with_statistics,
)
from rightreasons.errors import CheckpointMismatchError, InvalidBatchError, InvalidSettingError
from rightreasons.models.foreign import huggingface
from rightreasons.objectives import Loss, Objective, Term
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = ["ObjectiveMixin"]

LABELS = "labels"
COLUMNS = ("mask", "annotated", "group", "index")
"""Inputs that the objective reads and the model does not get."""
STATE_FILE = "objective.pt"


class ObjectiveMixin:
    """Lets a `Trainer` of transformers train on an objective; stands before `Trainer`.

    ::

        class ObjectiveTrainer(rr.integrations.ObjectiveMixin, Trainer): ...

        args = TrainingArguments("runs", remove_unused_columns=False)
        ObjectiveTrainer(model, args, objective=rr.recipes.r3(), train_dataset=data).train()

    A data set gives the model's main input (such as ``pixel_values``), ``labels`` and, where the
    objective needs them, ``mask``, ``annotated``, ``group`` and ``index``, as in `Batch`. Losses
    and gradients are those of the plain loop. Each part of the loss is logged as ``parts/NAME``,
    its weight as ``weights/NAME``; evaluation adds ``eval_parts/NAME``.

    With gradient accumulation each sample counts the same, also in a smaller last batch. The state
    of the objective is saved in every checkpoint and read by ``train(resume_from_checkpoint=...)``.

    Args:
        args: Arguments of `Trainer`, by position.
        objective: What to minimise, from `rightreasons.recipes` or a sum of terms. For terms that
            look at the training data first, call its ``prepare`` before.
        settings: Arguments of `Trainer`, by name.
    """

    args: Any
    state: Any
    accelerator: Any
    label_names: list[str]

    def __init__(self, *args: Any, objective: Objective | Term, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.args.remove_unused_columns:
            raise InvalidSettingError(
                "Expected TrainingArguments with remove_unused_columns=False, but it is True, "
                f"the default: Trainer would drop the columns {', '.join(COLUMNS)} before the "
                "objective sees them. Set remove_unused_columns=False."
            )
        if self.args.n_gpu > 1:
            raise InvalidSettingError(
                f"Expected one device for each process, but Trainer would share {self.args.n_gpu} "
                "by DataParallel. Start it with torchrun, or set CUDA_VISIBLE_DEVICES to one."
            )
        self.objective = objective.as_objective().to(self.args.device)
        # Trainer then counts the samples of an update, and leaves the scale of the loss to us.
        self.model_accepts_loss_kwargs = True
        self.label_names = self.label_names or [LABELS]
        self._adapted: tuple[nn.Module, nn.Module, str] | None = None
        self._training_parts, self._measured_parts = _Means(), _Means()

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """The objective's value for a batch, as `Trainer` asks for it.

        Args:
            model: The model that `Trainer` trains.
            inputs: The batch.
            return_outputs: Whether to give the logits of the samples, too.
            num_items_in_batch: Number of samples in the whole update; None is this batch alone.
        """
        adapted, main_input = self._adapt(model)
        batch = _read_batch(inputs, main_input)
        self.objective.train(model.training)
        if model.training:
            self.objective.begin_epoch(int(self.state.epoch or 0))
        loss = self._measure(adapted, batch, inputs)
        (self._training_parts if model.training else self._measured_parts).add(loss, len(batch))
        total = loss.total
        if num_items_in_batch is not None:
            averages = self.args.average_tokens_across_devices
            processes = self.accelerator.num_processes if averages else 1
            total = total * (len(batch) * processes / num_items_in_batch)
        if not return_outputs:
            return total
        return total, {"logits": self._logits(adapted, batch, loss)}

    def log(self, logs: dict[str, float], *args: Any, **settings: Any) -> None:
        """Log the parts of the loss beside the loss itself."""
        if "loss" in logs:
            logs |= self._training_parts.take(self.accelerator, "parts/")
            logs |= {f"weights/{name}": value for name, value in self.objective.weights.items()}
        self._trainer.log(logs, *args, **settings)

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **settings: Any) -> Any:
        """Evaluate as `Trainer` does, and add the parts of the loss to the metrics."""
        self._measured_parts = _Means()
        output = self._trainer.evaluation_loop(
            *args, metric_key_prefix=metric_key_prefix, **settings
        )
        parts = self._measured_parts.take(self.accelerator, f"{metric_key_prefix}_parts/")
        output.metrics.update(parts)
        return output

    def save_model(self, output_dir: str | None = None, *args: Any, **settings: Any) -> None:
        """Save the model, and the state of the objective beside it."""
        self._trainer.save_model(output_dir, *args, **settings)
        state = self.objective.state_dict()
        if state and self.args.should_save:
            save_checkpoint(Path(output_dir or self.args.output_dir) / STATE_FILE, state)

    def train(self, resume_from_checkpoint: str | bool | None = None, **settings: Any) -> Any:
        """Train, or go on from a checkpoint with the state that the objective had."""
        folder = resume_from_checkpoint
        if folder is True:
            from transformers.trainer_utils import get_last_checkpoint

            folder = cast(Any, get_last_checkpoint)(self.args.output_dir)
        if folder and self.objective.state_dict():
            self._load_state(Path(cast(str, folder)) / STATE_FILE)
        return self._trainer.train(resume_from_checkpoint=resume_from_checkpoint, **settings)

    @property
    def _trainer(self) -> Any:
        """The methods of `Trainer` that stand behind those of the mix-in."""
        return super()

    def _adapt(self, model: nn.Module) -> tuple[nn.Module, str]:
        """The model as a function of ``x``, and the name of that input."""
        if self._adapted is None or self._adapted[0] is not model:
            refuse_wrappers(model)
            core = innermost(model)
            adapted, name = model, next(iter(inspect.signature(core.forward).parameters))
            if hasattr(core, "main_input_name"):
                if core is not model:
                    raise InvalidSettingError(
                        f"Expected a model that takes `x`, but {type(model).__name__} holds a "
                        f"{type(core).__name__}. For several processes give Trainer "
                        "rr.models.huggingface(model), and name its input `x`."
                    )
                adapter = huggingface(core)
                adapted, name = adapter, adapter.input_name
            self._adapted = (model, adapted, name)
        return self._adapted[1:]

    def _measure(self, adapted: nn.Module, batch: Batch, inputs: dict[str, Any]) -> Loss:
        try:
            loss: Loss = self.objective(adapted, batch)
        except InvalidBatchError as error:
            missing = [name for name in ("mask", "group") if getattr(batch, name) is None]
            if not missing:
                raise
            raise InvalidBatchError(
                f"{error} Trainer's batch holds {', '.join(inputs)}: look whether the data set and "
                f"the data_collator give {' and '.join(f'`{name}`' for name in missing)}, for "
                "evaluation too, and whether remove_unused_columns is False."
            ) from error
        return loss

    def _logits(self, adapted: nn.Module, batch: Batch, loss: Loss) -> Tensor:
        """The logits of the samples as they are, also where terms train on changed copies."""
        kinds = [cast(type[Term], type(term)) for term in self.objective.terms.values()]
        if all(kind.alter is Term.alter for kind in kinds):
            return loss.logits
        with torch.no_grad(), with_statistics(statistics_of(adapted)):
            return Probe(adapted, batch, create_graph=False).logits.detach()

    def _load_state(self, path: Path) -> None:
        if not path.exists():
            raise CheckpointMismatchError(
                f"Expected the state of the objective in {path}, but there is no such file. Resume "
                "from a checkpoint that was saved with this objective."
            )
        try:
            self.objective.load_state_dict(load_checkpoint(path))
        except RuntimeError as error:
            raise CheckpointMismatchError(
                f"Expected the state of this objective in {path}, but it is that of another. "
                "Resume with the same objective."
            ) from error


class _Means:
    """The mean of each part over the samples since the last log."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.num_samples = 0

    def add(self, loss: Loss, num_samples: int) -> None:
        """Count the parts of a batch; nothing waits for the device."""
        for name, part in loss.parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + num_samples * part.detach().double()
        self.num_samples += num_samples

    def take(self, accelerator: Any, prefix: str) -> dict[str, float]:
        """Give the means over all processes, and begin again."""
        if not self.num_samples:
            return {}
        names = list(self.sums)
        count = self.sums[names[0]].new_tensor(float(self.num_samples))
        sums = accelerator.reduce(torch.stack([*self.sums.values(), count]), reduction="sum")
        means = (sums[:-1] / sums[-1]).tolist()
        self.sums, self.num_samples = {}, 0
        return {f"{prefix}{name}": mean for name, mean in zip(names, means, strict=True)}


def _read_batch(inputs: dict[str, Any], main_input: str) -> Batch:
    """Sort a batch of `Trainer` into the fields of a `Batch`; refuse what has no place there."""
    for name in (main_input, LABELS):
        if name not in inputs:
            raise InvalidBatchError(
                f"Expected `{main_input}` and `{LABELS}` in Trainer's batch, but it holds "
                f"{', '.join(inputs) or 'nothing'}. Name the columns of the data set so."
            )
    others = {n: one for n, one in inputs.items() if n not in (main_input, LABELS, *COLUMNS)}
    strange = [name for name, one in others.items() if not isinstance(one, Tensor)]
    if strange:
        raise InvalidBatchError(
            f"Expected `{main_input}`, `{LABELS}`, some of {', '.join(COLUMNS)} and tensors that "
            f"the model takes in Trainer's batch, but got {', '.join(strange)}, too. Remove these "
            "columns."
        )
    columns = {name: inputs[name] for name in COLUMNS if inputs.get(name) is not None}
    return Batch(x=inputs[main_input], y=inputs[LABELS], inputs=others or None, **columns)

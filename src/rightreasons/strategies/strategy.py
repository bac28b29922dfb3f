"""A strategy: one or several fits, and what is computed between them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from torch import nn
from typing_extensions import override

from rightreasons.core.files import save_weights, writable_folder, write_atomically
from rightreasons.datasets import Dataset, Splits
from rightreasons.errors import CheckpointMismatchError, InvalidSettingError, OutputError
from rightreasons.objectives import CrossEntropy, Objective, Term
from rightreasons.training.distributed import hold, launch_fabric
from rightreasons.training.fit import Fit, fit
from rightreasons.training.settings import DEFAULTS

__all__ = ["Once", "Stages", "Strategy", "is_begun", "resume_files"]

SEEDS_APART = 1_000_003
MACHINE = ("accelerator", "devices", "precision")


class Strategy(ABC):
    """Base class of strategies; settings go to the constructor, data to `fit`.

    Results depend on the seed and the settings alone. On the CPU they do not depend on how often
    training was killed and resumed, be it inside a fit or between two.
    """

    @final
    def fit(
        self,
        model: nn.Module,
        objective: Objective | Term,
        data: Splits,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        **settings: Any,
    ) -> Fit:
        """Train ``model`` in place, and leave it in test mode.

        Args:
            model: Gives logits ``(N, K)``. To resume, give it as it was at the start.
            objective: The objective of every fit, unless the strategy replaces it.
            data: All parts of the data; each strategy says which it reads.
            out: Folder of the run, see `Stages`; None writes nothing.
            resume: Resume the run in ``out``, if there is one.
            settings: Settings of `fit`: ``epochs``, ``lr``, ``seed``, ...

        Returns:
            Weights, selection and diagnosis of the last fit, with the history and the seconds of
            all fits. If there are several, each row of the history names its ``stage``.
        """
        stages = Stages(data, out=out, resume=resume, settings=dict(settings))
        with hold(stages.folder):
            self.run(model, objective.as_objective(), stages)
            return stages.finish(model)

    def deployed(self, model: nn.Module, folder: Path) -> nn.Module:
        """The model that a finished run uses: the trained one, unless the strategy combines more.

        Args:
            model: The trained model.
            folder: Folder of the run.
        """
        del folder
        return model

    @abstractmethod
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        """Run the procedure: fits through ``stages``, which leave their weights in ``model``."""


@final
class Once(Strategy):
    """One fit of the training data, the default of a run.

    Example:
        >>> import rightreasons as rr
        >>> data = rr.datasets.decoy_digits(seed=0)
        >>> model = rr.models.create("mlp", classes=10, channels=1, size=14, hidden=(8,))
        >>> fitted = Once().fit(model, rr.recipes.erm(), data, epochs=1, accelerator="cpu")
        >>> len(fitted.history)
        1
    """

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        stages.fit(None, model, objective, stages.data.train)


class Stages:
    """Runs the fits of a strategy, so that a killed run can be resumed at any point.

    A resumed strategy runs from top to bottom again. Finished fits give their saved results, an
    interrupted fit goes on from its checkpoint, and what was computed between two fits is read
    from its file. Each fit has its own seed; the first has the run's.

    ::

        stage-1-NAME/        a fit: checkpoint.pt, log.jsonl, model.safetensors
        stage-2-NAME.npy     an array computed for the second fit
        stage-2-NAME/        the second fit
        log.jsonl, model.safetensors    of the whole run, once it is finished

    Args:
        data: All parts of the data; fits are validated on ``data.val``.
        out: Folder of the run; None keeps everything in memory.
        resume: Resume the run in the folder, if there is one.
        settings: Settings of `fit`, for every stage that does not override them.
    """

    def __init__(
        self, data: Splits, *, out: str | Path | None, resume: bool, settings: dict[str, Any]
    ) -> None:
        self.data = data
        self.resume = resume
        machine = {name: settings.pop(name, getattr(DEFAULTS, name)) for name in MACHINE}
        self.fabric = settings.pop("fabric", None) or launch_fabric(**machine)
        self.settings = {"precision": machine["precision"], **settings}
        self.folder = None if out is None else writable_folder(out)
        self.fits: list[tuple[str | None, Fit]] = []
        self._modes: list[tuple[nn.Module, bool]] = []

    @property
    def seed(self) -> int:
        """Random seed of the next fit, and of what is drawn for it."""
        return int(self.settings.get("seed", DEFAULTS.seed)) + SEEDS_APART * len(self.fits)

    def fit(
        self,
        name: str | None,
        model: nn.Module,
        objective: Objective,
        data: Dataset,
        **changes: Any,
    ) -> Fit:
        """Train ``model`` in place, as `fit` does.

        Args:
            name: Name of the stage. None for the only stage, whose folder is the run's own.
            model: The model; layers that were in test mode at first stay in it.
            objective: The objective to minimise.
            data: Training data.
            changes: Settings of `fit` that differ from the run's.
        """
        self._refuse_begun(name)
        self._restore_modes(model)
        settings = {"validation": self.data.val, **self.settings, "seed": self.seed, **changes}
        folder = self.folder
        if folder is not None and name is not None:
            folder = folder / f"stage-{len(self.fits) + 1}-{name}"
        fitted = fit(
            model,
            objective,
            data,
            out=folder,
            resume=self.resume,
            fabric=self.fabric,
            **settings,
        )
        self.fits.append((name, fitted))
        return fitted

    def compute_once(
        self, name: str, num_rows: int, chunks: Callable[[], Iterable[NDArray[Any]]]
    ) -> NDArray[Any]:
        """Compute an array for the next fit once, chunk by chunk; a resumed run reads it.

        With a folder the rows go to a file, atomically, and are mapped from there: memory holds
        one chunk. With several processes each computes the array, and the first writes it.

        Args:
            name: Name of the array; with the number of the next fit, the name of the file.
            num_rows: Number of rows of all chunks together.
            chunks: Gives arrays of the same type and row shape, in order.
        """
        if self.folder is None or not self.fabric.is_global_zero:
            return _gather_rows(num_rows, chunks())
        path = self.folder / f"stage-{len(self.fits) + 1}-{name}.npy"
        if not (self.resume and path.exists()):
            write_atomically(path, lambda file: _write_rows(file, num_rows, chunks()))
        rows: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if len(rows) != num_rows:
            raise CheckpointMismatchError(
                f"Expected {path} to have {num_rows} rows, one for each sample, but it has "
                f"{len(rows)}: it is of other data. Use the same data, or another folder."
            )
        return rows

    kept = compute_once  # its name in earlier versions

    def finish(self, model: nn.Module) -> Fit:
        """Combine the results of all fits; writes the log and the weights of the whole run."""
        if [name for name, _ in self.fits] == [None]:
            return self.fits[0][1]
        history = [{"stage": name, **row} for name, one in self.fits for row in one.history]
        model.eval()
        if self.folder is not None and self.fabric.is_global_zero:
            text = "".join(json.dumps(row) + "\n" for row in history)
            write_atomically(self.folder / "log.jsonl", lambda file: file.write(text.encode()))
            save_weights(self.folder / "model.safetensors", model)
        seconds = sum(one.seconds for _, one in self.fits)
        return replace(self.fits[-1][1], history=history, seconds=seconds, last={})

    def refuse_parts(self, who: str) -> None:
        """Raise if parts of the model are to learn apart, where it has two bodies or heads."""
        for name in ("freeze", "body_lr"):
            if self.settings.get(name) is not None:
                raise InvalidSettingError(
                    f"Expected no `{name}` for {who}, which trains two models or heads at once, "
                    f"but got {self.settings[name]!r}. Leave it out, or use another strategy."
                )

    def refuse_other_tasks(self, who: str, objective: Objective) -> None:
        """Raise if the objective has another task than plain cross-entropy, which is replaced."""
        for name, term in objective.terms.items():
            if term.is_task and not _is_plain(term):
                raise InvalidSettingError(
                    f"Expected plain cross-entropy for {who}, which puts a task of its own in its "
                    f"place, but got {name!r}. Use --recipe erm, or a penalty such as r3, without "
                    "class weights; or another strategy."
                )

    def _refuse_begun(self, name: str | None) -> None:
        if self.fits or self.folder is None or self.resume or name is None:
            return
        if is_begun(self.folder):
            raise OutputError(
                f"Expected a folder without a run, but {self.folder} holds one. Go on with it by "
                "resume=True (--resume), or choose another folder (--out)."
            )

    def _restore_modes(self, model: nn.Module) -> None:
        """Put layers into the mode they had at first; a fit leaves all in test mode."""
        known = {id(module) for module, _ in self._modes}
        for module in model.modules():
            if id(module) not in known:
                self._modes.append((module, module.training))
        present = {id(module) for module in model.modules()}
        for module, training in self._modes:
            if id(module) in present:
                module.training = training


def is_begun(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return (folder / "checkpoint.pt").exists() or any(folder.glob("stage-*/checkpoint.pt"))


def resume_files(folder: Path) -> list[Path]:
    """Files that only an unfinished run in this folder needs."""
    staged = [*folder.glob("stage-*/checkpoint.pt"), *folder.glob("stage-*.npy")]
    return [folder / "checkpoint.pt", *sorted(staged)]


def _gather_rows(num_rows: int, chunks: Iterable[NDArray[Any]]) -> NDArray[Any]:
    rows, start = np.empty(0), 0
    for chunk in chunks:
        if not start:
            rows = np.empty((num_rows, *chunk.shape[1:]), chunk.dtype)
        rows[start : start + len(chunk)] = chunk
        start += len(chunk)
    return rows[:start]


def _write_rows(file: Any, num_rows: int, chunks: Iterable[NDArray[Any]]) -> None:
    begun = False
    for chunk in chunks:
        if not begun:
            header = np.lib.format.header_data_from_array_1_0(chunk)
            header |= {"shape": (num_rows, *chunk.shape[1:]), "fortran_order": False}
            np.lib.format.write_array_header_1_0(file, header)
            begun = True
        file.write(np.ascontiguousarray(chunk).tobytes())


def _is_plain(term: nn.Module) -> bool:
    """Whether a term is cross-entropy without settings."""
    return (
        isinstance(term, CrossEntropy) and term.class_weights is None and not term.label_smoothing
    )

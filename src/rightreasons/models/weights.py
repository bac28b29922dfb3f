"""Loading of weight files, of this library, of torchvision or of the user."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from rightreasons.errors import CheckpointMismatchError, InvalidSettingError
from rightreasons.models.foreign import Binary, HuggingFace

__all__ = ["LoadedWeights", "find_weights", "load_weights", "weights_like"]

_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".pt2")
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_PREFIXES = ("module.", "_orig_mod.", "model.")
_COUNTER = ".num_batches_tracked"
_SHOWN = 3


@dataclass(frozen=True)
class LoadedWeights:
    """What `load_weights` did, by the keys of the model's state dict.

    Args:
        path: The file.
        loaded: Keys that were loaded from the file.
        skipped: Keys of the head, untouched because the file has another number of classes
            or no head at all; empty if everything was loaded.
    """

    path: Path
    loaded: tuple[str, ...]
    skipped: tuple[str, ...]


def find_weights(name: str | None, folder: str | None) -> Path | None:
    """Find a file of weights: as it is named, or of that name in a folder; None is none."""
    if name is None:
        return None
    given = Path(name).expanduser()
    beside = Path(folder or ".").expanduser() / given
    return beside if not given.exists() and beside.exists() else given


def load_weights(model: nn.Module, path: str | Path) -> LoadedWeights:
    """Copy the weights of a file into a model of the same layers.

    Files come from this library, from the user, or from torchvision, whose names `resnet18`,
    `resnet34`, `resnet50` and `vgg11` share. The head, the model's last linear layer, keeps its own
    weights if the file was made for another number of classes. Everything else must fit; if
    anything does not, the model stays as it was. Only tensors are read from a file, never code.

    A state dict may lie inside a checkpoint, under ``state_dict``, ``model_state_dict`` or
    ``model``, and its names may begin with ``module.``, as DataParallel writes them. For an adapted
    model (`huggingface`, `binary`, `normalised`) the file may be that of the model inside.

    Args:
        model: Changed in place.
        path: A ``.safetensors`` file, or a ``.pt``, ``.pth``, ``.bin`` or ``.ckpt`` file with a
            state dict.

    Raises:
        InvalidSettingError: There is no such file, or it has another ending.
        CheckpointMismatchError: The file cannot be read or belongs to another model.

    Example:
        >>> import tempfile
        >>> ten, two = (nn.Sequential(nn.Linear(4, 3), nn.Linear(3, k)) for k in (10, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save(ten.state_dict(), f"{folder}/ten.pt")
        ...     done = load_weights(two, f"{folder}/ten.pt")
        >>> done.loaded, done.skipped
        (('0.weight', '0.bias'), ('1.weight', '1.bias'))
    """
    path = Path(path)
    given = _read_state_dict(path)
    model = _model_inside(model, given)
    expected: dict[str, Tensor] = model.state_dict()
    given = _remove_prefix(given, expected)
    head = _head_keys(model)
    if _is_another_head(given, expected, head):
        given = {key: value for key, value in given.items() if key not in head}
        expected = {key: value for key, value in expected.items() if key not in head}
        skipped = head
    else:
        skipped = ()
    _check_fit(path, given, expected)
    model.load_state_dict(given, strict=False)
    loaded = tuple(key for key in expected if key in given)
    return LoadedWeights(path=path, loaded=loaded, skipped=skipped)


def _model_inside(model: nn.Module, given: Mapping[str, Tensor]) -> nn.Module:
    """The model, or the one inside its adapters, of which a state dict has most names."""
    inside = [model]
    while (net := _adapted(inside[-1])) is not None:
        inside.append(net)

    def num_known(one: nn.Module) -> int:
        expected = one.state_dict()
        return sum(key in expected for key in _remove_prefix(dict(given), expected))

    return max(inside, key=num_known)


def _adapted(model: nn.Module) -> nn.Module | None:
    names = [name for name, _ in model.named_children()]
    if isinstance(model, HuggingFace | Binary) or names == ["normalise", "net"]:
        return model.get_submodule("net")
    return None


def _read_state_dict(path: Path) -> dict[str, Tensor]:
    if path.suffix not in _SUFFIXES:
        raise InvalidSettingError(
            f"Expected `path` to end in one of {_SUFFIXES}, but got {str(path)!r}."
        )
    if not path.is_file():
        raise InvalidSettingError(
            f"Expected `path` to be a file with weights, but there is none at {str(path)!r}."
        )
    _refuse_archive(path)
    content = _load_file(path)
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not _is_state_dict(content):
        raise CheckpointMismatchError(
            f"Expected a state dict, names with their tensors, in {str(path)!r}, but got "
            f"{_summary(content)}. Save model.state_dict()."
        )
    return dict(content)


def _refuse_archive(path: Path) -> None:
    """Raise for archives of code, which hold a compiled model and not a state dict."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {name.partition("/")[2] for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, RuntimeError, ValueError):  # the reader says why
        return
    if "constants.pkl" in parts and any(part.startswith("code/") for part in parts):
        what, load = "a TorchScript archive", "torch.jit.load(path)"
    elif "archive_format" in parts or "serialized_exported_program.json" in parts | _flat(parts):
        what, load = "a torch.export archive", "torch.export.load(path).module()"
    else:
        return
    raise InvalidSettingError(
        f"Expected a state dict in {str(path)!r}, but it is {what}: a compiled model, whose layers "
        "can be neither hooked, bounded nor trained on gradients. Save "
        f"{load}.state_dict() as safetensors, and name the model's Python code with --model."
    )


def _flat(parts: set[str]) -> set[str]:
    return {part.rpartition("/")[2] for part in parts}


def _load_file(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # damaged files make the readers raise almost anything
        raise CheckpointMismatchError(
            f"Expected weights in {str(path)!r}, but the file cannot be read as tensors alone: it "
            f"is damaged, incomplete or holds other Python objects. Save model.state_dict()."
        ) from error


def _summary(content: object) -> str:
    if not isinstance(content, Mapping):
        return type(content).__name__
    keys = [str(key) for key in content]
    return f"a mapping of {', '.join(keys[:_SHOWN])}" if keys else "an empty mapping"


def _is_state_dict(content: object) -> bool:
    if not isinstance(content, Mapping) or not content:
        return False
    return all(isinstance(key, str) and isinstance(t, Tensor) for key, t in content.items())


def _remove_prefix(given: dict[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    for prefix in _PREFIXES:
        is_foreign = not any(key.startswith(prefix) for key in expected)
        if is_foreign and all(key.startswith(prefix) for key in given):
            given = {key.removeprefix(prefix): value for key, value in given.items()}
    return given


def _head_keys(model: nn.Module) -> tuple[str, ...]:
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        return ()
    prefix = f"{linear[-1]}." if linear[-1] else ""
    return tuple(
        f"{prefix}{name}" for name, _ in model.get_submodule(linear[-1]).named_parameters()
    )


def _is_another_head(
    given: Mapping[str, Tensor], expected: Mapping[str, Tensor], head: tuple[str, ...]
) -> bool:
    if not head:
        return False
    if not any(key in given for key in head):
        return True
    return all(
        key in given
        and given[key].shape[1:] == expected[key].shape[1:]
        and given[key].shape[:1] != expected[key].shape[:1]
        for key in head
    )


def _check_fit(path: Path, given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    missing = [key for key in expected if key not in given and not key.endswith(_COUNTER)]
    unknown = [key for key in given if key not in expected]
    reshaped = [
        f"{key} is {tuple(given[key].shape)} in the file, {tuple(expected[key].shape)} in the model"
        for key in expected
        if key in given and given[key].shape != expected[key].shape
    ]
    problems = [
        f"{len(keys)} {what} ({'; '.join(keys)})"
        for keys, what in (
            (missing, "missing from the file"),
            (unknown, "unknown to the model"),
            (reshaped, "of another shape"),
        )
        if keys
    ]
    if problems:
        raise CheckpointMismatchError(
            f"Expected the weights of this model in {str(path)!r}, but of {len(given)} tensors in "
            f"the file and {len(expected)} in the model there are {', '.join(problems)}. Make the "
            f"model with the settings that the file was made for; torchvision's files need "
            f'channels=3 and, for a resnet, stem="imagenet".'
        )


def weights_like(model: nn.Module, path: str | Path | None) -> dict[str, Tensor]:
    """Give a model's weights under the names of a file that was loaded into it.

    The code that wrote the file can then load them. The names are those of the model inside its
    adapters (`huggingface`, `binary`, `normalised`), with the file's prefix if it has one.

    Args:
        model: The model.
        path: The file; None is a model that came with its weights, whose adapters are left out.

    Example:
        >>> import tempfile
        >>> net = nn.Linear(2, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save(nn.DataParallel(net).state_dict(), f"{folder}/net.pt")
        ...     sorted(weights_like(net, f"{folder}/net.pt"))
        ['module.bias', 'module.weight']
    """
    if path is None:
        while (net := _adapted(model)) is not None:
            model = net
        return dict(model.state_dict())
    given = _read_state_dict(Path(path))
    state: dict[str, Tensor] = _model_inside(model, given).state_dict()
    prefix = next(iter(given)).removesuffix(next(iter(_remove_prefix(given, state))))
    return {f"{prefix}{key}": value for key, value in state.items()}

"""The user's own models by name: ``path.py:factory`` or ``package.module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_names
from rightreasons.core.model_modes import test_time_mode
from rightreasons.core.outputs import refuse_probabilities
from rightreasons.errors import InvalidSettingError
from rightreasons.models.foreign import huggingface

__all__ = [
    "absolute_name",
    "check_outputs",
    "class_number",
    "create_own",
    "is_own",
    "short_name",
]

_NOT_OWN = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
FROM_THE_DATA = ("classes", "channels", "size", "vocabulary")
_FILES = (".pt", ".pth", ".pt2", ".ckpt", ".bin", ".safetensors", ".onnx")


def is_own(name: str) -> bool:
    """Whether the name of a model is that of the user's own code, not one of this library.

    Example:
        >>> is_own("net.py:make"), is_own("resnet18")
        (True, False)
    """
    return ":" in name or name.endswith((".py", *_FILES))


def absolute_name(name: str) -> str:
    """The same name with the whole path of its file, so that it holds in every folder."""
    place, colon, attribute = name.rpartition(":")
    return (
        f"{Path(place).expanduser().resolve()}:{attribute}" if colon and _is_file(place) else name
    )


def short_name(name: str) -> str:
    """The name without the folder of its file.

    Example:
        >>> short_name("/home/ann/net.py:make"), short_name("timm:create_model")
        ('net.py:make', 'timm:create_model')
    """
    place, colon, attribute = name.rpartition(":")
    return f"{Path(place).name}:{attribute}" if colon and _is_file(place) else name


def create_own(
    name: str,
    *,
    classes: int,
    channels: int,
    size: int | Sequence[int],
    vocabulary: int | None = None,
    **settings: Any,
) -> nn.Module:
    """Make a model by calling the user's function or class.

    It gets ``classes``, ``channels``, ``size`` and ``vocabulary`` if it has parameters of these
    names, and the settings. A classifier of transformers is adapted, see `huggingface`.

    Args:
        name: ``path.py:factory`` or ``package.module:name``; an nn.Module there is taken itself.
        classes: How many classes there are.
        channels: Number of image channels.
        size: Shape of a sample without its first axis: ``(H, W)`` for images.
        vocabulary: Number of token ids, for texts alone.
        settings: Further settings of the function.
    """
    found = _find(name)
    if isinstance(found, nn.Module):
        check_names(f"settings of {name!r}, which is a model already,", settings, ())
        made: object = found
    else:
        shape = {"channels": channels, "size": size}
        if vocabulary is not None:
            shape["vocabulary"] = vocabulary
        made = _call(name, found, settings, classes=classes, **shape)
    return _checked_model(name, made)


def check_outputs(
    model: nn.Module,
    x: Tensor,
    classes: Sequence[str],
    name: str,
    inputs: Mapping[str, Tensor] | None = None,
) -> None:
    """Raise unless a model gives logits for these classes, at two samples.

    Args:
        model: The model.
        x: Samples ``(N, ...)`` of the data.
        classes: Names of the classes.
        name: Name of the model, for error messages.
        inputs: What else the model takes, such as an attention mask.
    """
    with test_time_mode(model), torch.enable_grad(), _refused_code(name, f"take {_shape(x)}"):
        output = model(x[:2].clone(), **{name: one[:2] for name, one in (inputs or {}).items()})
    shape = tuple(output.shape) if isinstance(output, Tensor) else ()
    num = len(x[:2])
    if len(classes) == 2 and shape in ((num,), (num, 1)):
        raise InvalidSettingError(
            f"Expected {name!r} to give two logits, for {classes[0]} and {classes[1]}, but it "
            f"gives one. Say for which class it is: --set-model positive={classes[1]} (in Python "
            "rr.models.binary)."
        )
    if shape != (num, len(classes)):
        got = shape or type(output).__name__
        raise InvalidSettingError(
            f"Expected {name!r} to give logits of shape ({num}, {len(classes)}) for the classes "
            f"{', '.join(classes[:5])}{', …' if len(classes) > 5 else ''}, but got {got}. "
            f"Give it {len(classes)} outputs, such as --set-model num_classes={len(classes)}; a "
            "model that returns an object needs a small wrapper that returns its logits."
        )
    refuse_probabilities(output)


def class_number(classes: Sequence[str], name: object) -> int:
    """The number of the class that one logit of a binary model is for."""
    if len(classes) != 2 or str(name) not in classes:
        raise InvalidSettingError(
            f"Expected `positive` to be one of two classes, {' or '.join(classes[:5])}, but got "
            f"{name!r}. Name the class whose logit the model gives (--set-model positive=CLASS)."
        )
    return list(classes).index(str(name))


def _find(name: str) -> Any:
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        what = (
            "an archive or a file of weights"
            if name.endswith(_FILES)
            else "without a name after a colon"
        )
        raise InvalidSettingError(
            f"Expected the model as path.py:factory or package.module:name, but got {name!r}, "
            f"{what}. Name the function or class that builds it, and its weights with --weights."
        )
    module = _load_file(Path(place).expanduser()) if _is_file(place) else _import(place)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [one for one in vars(module) if not one.startswith("_")]
            raise InvalidSettingError(
                f"Expected {attribute!r} in {place}, but it has "
                f"{', '.join(known[:20]) or 'nothing'}. Name a function or class that "
                "gives an nn.Module."
            )
        found = getattr(found, part)
    if not callable(found):
        raise InvalidSettingError(
            f"Expected {name!r} to be a function or a class that gives an nn.Module, but it is a "
            f"{type(found).__name__}."
        )
    return found


def _is_file(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidSettingError(
            f"Expected a Python file at {str(path)!r}, but there is none. Name the file that "
            "builds the model, as in --model net.py:factory."
        )
    path = path.resolve()
    # A name by content: an edited file is loaded anew, and its classes can be found by pickle.
    digest = sha256(path.read_bytes() + str(path).encode()).hexdigest()[:12]
    name = f"rightreasons_own_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidSettingError(
            f"Expected a Python file, which ends in .py, but got {str(path)!r}."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _importable(path.parent), _refused_code(str(path), "be imported"):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _import(name: str) -> ModuleType:
    with _importable(Path.cwd()), _refused_code(name, "be imported"):
        return importlib.import_module(name)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let Python find modules in a folder, such as those beside the user's file."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _refused_code(name: str, purpose: str) -> Iterator[None]:
    """Turn an error in the user's code into one that says where it is."""
    try:
        yield
    except Exception as error:  # anything may happen there
        words = " ".join(str(error).split())[:400]
        line, file = _place(error)
        raise InvalidSettingError(
            f"Expected {name!r} to {purpose}, but line {line} of {file} raised "
            f"{type(error).__name__}: {words}"
        ) from error


def _place(error: Exception) -> tuple[int | None, str | None]:
    """Line and file of an error: the last of the user's own code, if there is any."""
    if isinstance(error, SyntaxError):
        return error.lineno, error.filename
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith((*_NOT_OWN, "<frozen"))]
    last = (own or frames)[-1]
    return last.lineno, last.filename


def _call(name: str, make: Callable[..., Any], settings: dict[str, Any], **given: Any) -> object:
    try:
        parameters = list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        parameters = []
    named = [
        one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        allowed = [one for one in named if one not in FROM_THE_DATA]
        check_names(f"settings of the model {name!r}", settings, allowed)
    taken = {key: value for key, value in given.items() if key in named}
    words = ", ".join(f"{key}={value!r}" for key, value in {**taken, **settings}.items())
    with _refused_code(name, f"be called with {words or 'nothing'}"):
        return make(**taken, **settings)


def _checked_model(name: str, made: object) -> nn.Module:
    if isinstance(made, torch.jit.ScriptModule | torch.export.ExportedProgram):
        raise InvalidSettingError(
            f"Expected {name!r} to give an nn.Module, but it gives a {type(made).__name__}: layers "
            "of a compiled archive can be neither hooked, bounded nor trained on gradients. Give "
            "the Python code of the model, and its weights with --weights."
        )
    if not isinstance(made, nn.Module):
        raise InvalidSettingError(
            f"Expected {name!r} to give an nn.Module, but it gives {type(made).__name__}. Return "
            "the model itself."
        )
    is_huggingface = any(base.__name__ == "PreTrainedModel" for base in type(made).__mro__)
    return huggingface(made) if is_huggingface else made


def _shape(x: Tensor) -> str:
    return f"samples of shape {tuple(x.shape[1:])}"

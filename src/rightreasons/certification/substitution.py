"""Certificates for texts and tables: what no substitute of a masked word or value can change."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rightreasons.bounds import margin_bounds
from rightreasons.certification.certificate import Certificate, Status, Verdict, model_digest
from rightreasons.certification.cross_check import refuse_contradiction, refuse_non_finite
from rightreasons.core.checks import check_choice, check_integer
from rightreasons.core.files import library_versions
from rightreasons.core.model_modes import innermost, test_time_mode
from rightreasons.core.progress import track
from rightreasons.datasets import Card, Dataset, as_dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnsupportedLayerError
from rightreasons.probe.embeddings import call_model, rows_for_batch
from rightreasons.probe.probe import move_to_model
from rightreasons.types import Batch, Target

__all__ = ["certify_substitutes", "column_values"]

MOST_COMBINATIONS = 10_000
MOST_ROWS = 4096
NUM_COUNTEREXAMPLES = 10
CLOSE = 1e-3
"""Margins below this are computed again by the model itself."""


def certify_substitutes(
    model: nn.Module,
    data: Dataset | Batch,
    *,
    method: Literal["enumeration", "bounds"] = "enumeration",
    substitutes: Sequence[int] | None = None,
    batch_size: int = 250,
    progress: bool = False,
) -> Certificate:
    """Prove for each sample that no substitute of what is masked changes the prediction.

    - Texts, ``"enumeration"``: every substitute is tried in every masked place, one place at a
      time. The verdict is exact: verified or refuted.
    - Texts, ``"bounds"``: all masked places may change at once. Interval bounds of the mean
      embedding prove it for `MeanMLP`; what they do not prove is refuted by enumeration, or
      unknown. Other models are refused by name.
    - Tables: every combination of values of the masked categories is tried. Masked numbers are
      refused: `certify` bounds them.

    Args:
        model: Gives logits; it stays on its device, and its mode does not change.
        data: Data with masks: texts, or rows of a table.
        method: ``"enumeration"`` or ``"bounds"``.
        substitutes: Token ids to try; None is the word list of the data.
        batch_size: Number of samples in a batch.
        progress: Whether to show a progress bar.

    Example:
        >>> from rightreasons.models import text_mlp
        >>> attention = {"attention_mask": torch.ones(2, 3).long()}
        >>> x, mask = torch.tensor([[1, 2, 3], [3, 2, 1]]), torch.tensor([[1.0, 0.0, 0.0]] * 2)
        >>> batch = Batch(x=x, y=torch.tensor([0, 1]), mask=mask, inputs=attention)
        >>> proof = certify_substitutes(text_mlp(vocabulary=9, classes=2), batch, substitutes=[1])
        >>> proof.summary["num_certifiable"], proof.summary["counts"]["unknown"]
        (2, 0)
    """
    check_choice("method", method, ("enumeration", "bounds"))
    check_integer("batch_size", batch_size)
    data = as_dataset(data)
    if not data.has_masks:
        raise InvalidBatchError(
            "Expected data with masks (1 where the model must not look) to certify, but got none."
        )
    core = innermost(model)
    first = data.take(torch.tensor([0]))
    is_text = not first.x.is_floating_point()
    prover: _Texts | _Rows
    if is_text:
        prover = _Texts(core, _tokens(data.card, substitutes), with_bounds=method == "bounds")
    else:
        prover = _Rows(core, column_values(data.card))
    verdicts: list[Verdict] = []
    counterexamples: list[dict[str, Any]] = []
    rows = list(torch.split(torch.arange(len(data)), batch_size))
    batches: Iterable[Batch] = data.batches(rows)
    if progress:
        batches = track(batches, "Certifying", total=len(rows))
    for batch in batches:
        with test_time_mode(core), torch.no_grad():
            made, found = _certify_batch(prover, move_to_model(batch, core))
        verdicts += made
        counterexamples += found
        del counterexamples[NUM_COUNTEREXAMPLES:]
    return Certificate(
        samples=tuple(verdicts),
        settings={"epsilon": None, "method": method, "claim": prover.claim},
        model_sha256=model_digest(core.state_dict()),
        data_sha256=data.digest(),
        data=data.card.name,
        groups=data.card.groups,
        counterexamples=tuple(counterexamples),
        versions=library_versions(),
    )


def column_values(card: Card) -> tuple[Tensor, Tensor]:
    """All combinations of values of the masked categories of a table.

    Returns:
        The numbers of their features ``(M,)``, and their values in each combination ``(K, M)``.
    """
    masked = [column for column in card.columns if column.masked]
    numbers = [column.name for column in masked if not column.values]
    if not masked or numbers:
        what = f"{numbers[0]!r} is a number" if numbers else "no column is masked"
        raise InvalidSettingError(
            f"Expected masked categories, whose values can be tried one by one, but {what}. Use "
            "certify with epsilon=None, which bounds the model over all values."
        )
    sizes = [len(column.values) for column in masked]
    count = torch.tensor(sizes).prod()
    if int(count) > MOST_COMBINATIONS:
        raise InvalidSettingError(
            f"Expected at most {MOST_COMBINATIONS} combinations of values, but the masked columns "
            f"have {int(count)}. Mask fewer columns, or use certify with epsilon=None."
        )
    places = [list(range(column.first, column.first + len(column.values))) for column in masked]
    chosen = [
        torch.cat([torch.eye(size)[value] for size, value in zip(sizes, values, strict=True)])
        for values in itertools.product(*map(range, sizes))
    ]
    return torch.tensor([place for some in places for place in some]), torch.stack(chosen)


def _certify_batch(
    prover: _Texts | _Rows, batch: Batch
) -> tuple[list[Verdict], list[dict[str, Any]]]:
    logits = call_model(prover.model, batch.x, batch.inputs)
    refuse_non_finite(logits)
    predicted = logits.argmax(dim=1)
    proved, found, changed_to = prover.decide(batch, predicted)
    has_mask = batch.mask.flatten(1).any(dim=1)  # type: ignore[union-attr]
    verdicts: list[Verdict] = []
    counterexamples: list[dict[str, Any]] = []
    for n in range(len(batch)):
        entry: dict[str, Any] = {
            "index": n if batch.index is None else int(batch.index[n]),
            "y": int(batch.y[n]),
            "prediction": int(predicted[n]),
            "group": -1 if batch.group is None else int(batch.group[n]),
        }
        if bool(has_mask[n]):
            new = int(changed_to[n])
            is_wrong, is_proved = new != entry["prediction"], bool(proved[n] > 0)
            status: Status = "refuted" if is_wrong else "verified" if is_proved else "unknown"
            entry |= {"status": status, "changed_to": new if is_wrong else None}
            entry |= {"margin_proved": float(proved[n]), "margin_found": float(found[n])}
            if is_wrong:
                counterexamples.append(
                    {key: entry[key] for key in ("index", "prediction", "changed_to")}
                )
        verdicts.append(Verdict(**entry))
    return verdicts, counterexamples


class _Rows:
    """Tries combinations of values in the rows of a table."""

    def __init__(self, model: nn.Module, values: tuple[Tensor, Tensor]) -> None:
        self.model = model
        self.columns, self.values = values
        self.claim = f"whichever of {len(self.values)} combinations of values a masked column has"

    def decide(self, batch: Batch, predicted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The smallest margin of each sample, twice, and the class predicted there."""
        least = torch.full_like(batch.x[:, 0], torch.inf)
        changed_to = predicted.clone()
        columns = self.columns.to(batch.x.device)
        for one in self.values.to(batch.x):
            x = batch.x.index_copy(1, columns, one.expand(len(batch), -1))
            logits = call_model(self.model, x, batch.inputs)
            margin = Target.MARGIN(logits, predicted)
            better = margin < least
            least = torch.where(better, margin, least)
            changed_to = torch.where(better, logits.argmax(dim=1), changed_to)
        return least, least, changed_to


class _Texts:
    """Tries substitutes in the masked places of texts, and bounds them where that is possible."""

    def __init__(self, model: nn.Module, tokens: Tensor, *, with_bounds: bool) -> None:
        self.model: Any = model
        self.tokens = tokens
        self.with_bounds = with_bounds
        self.pools = hasattr(model, "pooling_weights")
        if with_bounds and not self.pools:
            raise UnsupportedLayerError(
                "Expected a model that reads the mean of its embeddings, such as text_mlp, for "
                f'bounds of texts, but got {type(model).__name__}. Use method="enumeration".'
            )
        where = "masked places at once" if with_bounds else "a masked place"
        self.claim = f"whichever of {len(tokens)} words stand in {where}"

    def decide(self, batch: Batch, predicted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The proved margin, the smallest one found, and the class predicted there."""
        found, changed_to = self._enumerate(batch, predicted)
        if not self.with_bounds:
            return found, found, changed_to
        proved = self._bound(batch, predicted)
        refuse_contradiction(proved > 0, changed_to != predicted)
        return proved, found, changed_to

    def _enumerate(self, batch: Batch, predicted: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.tokens.to(batch.x.device)
        place = batch.mask.nonzero()  # type: ignore[union-attr]  # (P, 2)
        least = torch.full((len(batch),), torch.inf, dtype=torch.float64, device=batch.x.device)
        changed_to = predicted.clone()
        count = len(place) * len(tokens)
        for pairs, logits in self._logits(batch, place, tokens, count):
            sample = place[pairs // len(tokens), 0]
            margins = Target.MARGIN(logits, predicted[sample]).double()
            smallest = least.scatter_reduce(0, sample, margins, "amin")
            is_new = (margins == smallest[sample]) & (margins < least[sample])
            changed_to[sample[is_new]] = logits.argmax(dim=1)[is_new]
            least = smallest
        return least, changed_to

    def _logits(
        self, batch: Batch, place: Tensor, tokens: Tensor, count: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Some of the pairs of places and tokens, and the logits with that token there."""
        numbers = torch.arange(count, device=batch.x.device)
        if not self.pools:
            most = rows_for_batch(self.model, batch, "values", ceiling=MOST_ROWS, in_training=False)
            for pairs in torch.split(numbers, most):
                yield pairs, self._run(batch, place, tokens, pairs)
            return
        table = self.model.embedding.weight
        weights = self.model.pooling_weights(batch.x, **(batch.inputs or {}))
        pooled = (weights[..., None] * table[batch.x]).sum(dim=1)
        for pairs in torch.split(numbers, 64 * MOST_ROWS):
            sample, position = place[pairs // len(tokens)].unbind(dim=1)
            change = table[tokens[pairs % len(tokens)]] - table[batch.x[sample, position]]
            moved = pooled[sample] + weights[sample, position][:, None] * change
            logits = self.model.head(moved)
            top = logits.topk(2, dim=1).values
            close = (top[:, 0] - top[:, 1] < CLOSE).nonzero().flatten()
            for some in torch.split(close, MOST_ROWS):  # rounding may decide these
                logits[some] = self._run(batch, place, tokens, pairs[some])
            yield pairs, logits

    def _run(self, batch: Batch, place: Tensor, tokens: Tensor, pairs: Tensor) -> Tensor:
        sample, position = place[pairs // len(tokens)].unbind(dim=1)
        some = batch[sample]
        x = some.x.clone()
        x[torch.arange(len(x), device=x.device), position] = tokens[pairs % len(tokens)]
        return call_model(self.model, x, some.inputs)

    def _bound(self, batch: Batch, predicted: Tensor) -> Tensor:
        table = self.model.embedding.weight.double()
        weights = self.model.pooling_weights(batch.x, **(batch.inputs or {})).double()
        known, own = table[self.tokens.to(batch.x.device)], table[batch.x]
        masked = (batch.mask != 0)[..., None]  # type: ignore[index]
        ends = [
            torch.where(masked, choose(end, own), own)
            for choose, end in ((torch.minimum, known.amin(0)), (torch.maximum, known.amax(0)))
        ]
        size = (weights[..., None] * torch.maximum(ends[0].abs(), ends[1].abs())).sum(dim=1)
        dtype = self.model.embedding.weight.dtype
        slack = 4 * batch.x.shape[1] * torch.finfo(dtype).eps * size  # the mean is rounded, too
        lower, upper = ((weights[..., None] * end).sum(dim=1) for end in ends)
        lower, upper = (lower - slack).to(dtype), (upper + slack).to(dtype)
        lower = torch.nextafter(lower, torch.full_like(lower, -torch.inf))
        upper = torch.nextafter(upper, torch.full_like(upper, torch.inf))
        margins = margin_bounds(self.model.head, lower, upper, predicted, outward=True)
        others = margins.scatter(1, predicted[:, None], torch.inf).amin(dim=1)
        return torch.nan_to_num(others.double(), nan=-torch.inf, neginf=-torch.inf)


def _tokens(card: Card, given: Sequence[int] | None) -> Tensor:
    known = card.text.substitutes if given is None and card.text is not None else given
    if not known:
        raise InvalidSettingError(
            "Expected substitutes for masked words, but the data have no word list. Give `words` "
            "to rr.text.dataset, or token ids as `substitutes`."
        )
    return torch.tensor([int(token) for token in known])

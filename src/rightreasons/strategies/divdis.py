"""DivDis: two heads that must disagree on unlabelled data, of which one is chosen."""

from __future__ import annotations

import copy
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_choice, positive_float
from rightreasons.core.norms import measure_whole_batch
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.models.surgery import last_linear, read_inputs
from rightreasons.objectives import Objective, Term, with_task
from rightreasons.probe.probe import Probe, move_to_model
from rightreasons.strategies.strategy import Stages, Strategy
from rightreasons.training.distributed import seeded
from rightreasons.training.evaluate import evaluate

__all__ = ["Disagreement", "DivDis", "TwoHeads", "mutual_information"]

TINY = 1e-12


class TwoHeads(nn.Module):
    """A model with a second last layer on the same features; logits are those of the first.

    Args:
        model: Gives logits.
        layer: Its last linear layer.
        seed: Random seed for the second head's weights.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        >>> TwoHeads(model, model[1], seed=0).second
        Linear(in_features=4, out_features=2, bias=True)
    """

    def __init__(self, model: nn.Module, layer: nn.Linear, *, seed: int) -> None:
        super().__init__()
        self.model = model
        self.second = copy.deepcopy(layer)
        with seeded(seed):
            self.second.reset_parameters()
        self.__dict__["first"] = layer  # no submodule here: it belongs to the model

    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        """Logits of the first layer; a hook can record those of the second."""
        with read_inputs(self.__dict__["first"]) as inputs:
            logits: Tensor = self.model(x, **others)
        self.second(inputs[-1])
        return logits

    def use_second(self) -> None:
        """Put the second layer's weights into the model."""
        with torch.no_grad():
            self.__dict__["first"].load_state_dict(self.second.state_dict())


def mutual_information(first: Tensor, second: Tensor) -> Tensor:
    r"""The mutual information of two heads' predictions over samples, in nats.

    .. math:: \sum_{ij} P_{ij} \log \frac{P_{ij}}{P_{i\cdot} P_{\cdot j}}, \qquad
              P_{ij} = \frac1N \sum_n p_i(x_n) q_j(x_n)

    Args:
        first: Probabilities ``(N, K)``.
        second: Probabilities of the other head, in the same shape.

    Example:
        >>> sure = torch.eye(2)
        >>> mutual_information(sure, sure).exp()
        tensor(2.)
    """
    joint = first.T @ second / len(first)
    apart = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True)
    return (joint * ((joint + TINY).log() - (apart + TINY).log())).sum()


class Disagreement(Term):
    r"""The losses of `DivDis`, for a model with `TwoHeads`.

    .. math:: \tfrac12 (\ell_1(x) + \ell_2(x)) + \lambda \, I(\hat y_1; \hat y_2) +
              \beta \sum_h \mathrm{KL}(\bar p_h \,\Vert\, p(y))

    The last two terms use as many unlabelled samples as the batch has, drawn at each step;
    :math:`p(y)` is the frequency of each label in training.

    Args:
        unlabelled: Samples of which only the inputs are read.
        weight: :math:`\lambda`.
        balance: :math:`\beta`.
    """

    is_task = True
    layers = ("second",)
    frequency: Tensor

    def __init__(self, unlabelled: Dataset, *, weight: float, balance: float) -> None:
        super().__init__()
        self.unlabelled = unlabelled
        self.weight = weight
        self.balance = balance
        self.register_buffer("frequency", torch.zeros(0))

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del num_passes
        counts = torch.bincount(data.labels, minlength=len(data.card.classes))
        self.frequency = counts / counts.sum()

    def __deepcopy__(self, memo: dict[int, object]) -> Disagreement:
        copied = Disagreement(self.unlabelled, weight=self.weight, balance=self.balance)
        copied.frequency = self.frequency.clone()
        return copied

    @override
    def forward(self, probe: Probe) -> Tensor:
        y = probe.batch.y
        heads = (probe.logits, probe.activations["second"].to(probe.logits))
        first, second = (functional.cross_entropy(head, y, reduction="none") for head in heads)
        task = (first + second) / 2
        rows = torch.randint(len(self.unlabelled), (len(y),))
        unlabelled = move_to_model(self.unlabelled.take(rows), probe.model)
        settings = {"create_graph": probe.create_graph, "layers": probe.layers}
        other = Probe.at_test_time(probe.model, unlabelled, **settings)
        first = functional.softmax(other.logits, dim=1)
        second = functional.softmax(other.activations["second"].to(first), dim=1)
        return measure_whole_batch(self._combine, task, first, second)

    def _combine(self, task: Tensor, first: Tensor, second: Tensor) -> Tensor:
        frequency = self.frequency.to(first)
        divergence = sum(
            (mean * ((mean + TINY).log() - (frequency + TINY).log())).sum()
            for mean in (first.mean(dim=0), second.mean(dim=0))
        )
        return task + self.weight * mutual_information(first, second) + self.balance * divergence


@final
class DivDis(Strategy):
    """DivDis: two heads, each right in training, that must differ on unlabelled data.

    On samples where the shortcut and the real cause disagree, heads that differ cannot both use
    the shortcut. The unlabelled data must hold such samples. ``"test"`` takes
    the inputs of the test set, never its labels, as the paper does; results then hold for *these*
    inputs (transductive). ``"validation"`` takes the inputs of the validation part, which helps
    only if the shortcut is broken there. The better head on validation data is kept: by the worst
    group if there are groups, else by accuracy. Both heads are in ``stage-1-heads``.

    Differs from the paper: unlabelled samples pass through the model as at test time, with the
    normalisation statistics of training. Validation data replace the few labels that the paper
    asks of an annotator.

    Args:
        unlabelled: ``"test"`` or ``"validation"``.
        weight: Weight of the mutual information between the heads; 10 in most of the paper.
        balance: Weight of the divergence of their mean answers from the label frequencies.

    References:
        lee2023diversify
    """

    def __init__(
        self,
        *,
        unlabelled: Literal["test", "validation"] = "test",
        weight: float = 10.0,
        balance: float = 10.0,
    ) -> None:
        self.unlabelled = check_choice("unlabelled", unlabelled, ("test", "validation"))
        self.weight = positive_float("weight", weight)
        self.balance = positive_float("balance", balance)

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        stages.refuse_parts("DivDis")
        stages.refuse_other_tasks("DivDis", objective)
        data, val = stages.data, stages.data.val
        if val is None:
            raise InvalidSettingError(
                "Expected validation data for DivDis, by which a head is chosen, but got none. "
                "Hold some out."
            )
        unlabelled = as_dataset(data.test if self.unlabelled == "test" else val)
        sample = move_to_model(val.take(torch.tensor([0])), model)
        classes = len(val.card.classes)
        layer = last_linear(model, sample.x, sample.inputs, num_classes=classes)
        heads = TwoHeads(model, layer, seed=stages.seed)
        heads.training = model.training  # its layers stay in their mode
        term = Disagreement(unlabelled, weight=self.weight, balance=self.balance)
        stages.fit("heads", heads, with_task(objective, term), data.train)
        first = _measure_quality(model, val)
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        heads.use_second()
        if _measure_quality(model, val) <= first:
            model.load_state_dict(weights)


def _measure_quality(model: nn.Module, val: Dataset) -> float:
    grouped = val.groups is not None and bool((val.groups >= 0).any())
    metric, key = (
        ("group_accuracy", "group_accuracy/worst") if grouped else ("accuracy", "accuracy")
    )
    return evaluate(model, val, [metric])[key]

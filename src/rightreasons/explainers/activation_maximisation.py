"""Activation maximisation: pictures that make a class's logit large."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_integer, check_range, positive_float
from rightreasons.core.rng import sample_noise
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = ["activation_maximisation"]


def activation_maximisation(
    model: nn.Module,
    classes: Sequence[int],
    *,
    shape: Sequence[int],
    num_steps: int = 200,
    step_size: float = 0.1,
    valid_range: tuple[float, float] = (0.0, 1.0),
    target: Target | str = Target.LOGIT,
    seed: int = 0,
) -> Tensor:
    r"""Pictures that a model takes for a class, found by gradient ascent from noise.

    .. math:: x \leftarrow \mathrm{clip}\Bigl(x + s \frac{\nabla t_c(x)}{\lVert \nabla t_c(x)
        \rVert_2}\Bigr)

    The start is uniform in the valid range. All pictures are optimised together; the start of each
    depends on the seed and on its position in ``classes``. The model runs as at test time.

    Differs from the paper, which states neither the number of steps nor their size. Here every step
    has the same length, so that the size of a model's gradients does not matter.

    Args:
        model: A model that gives logits ``(N, K)``, on any device.
        classes: The class of each picture; a class may come several times.
        shape: Shape of a picture, ``(C, H, W)``, as on the data's card.
        num_steps: Number of ascent steps.
        step_size: Length of a step over all features, in input units.
        valid_range: Smallest and largest value of a feature.
        target: The number that grows; ``"loss"`` would make the picture *less* like the class.
        seed: Random seed for the starts.

    Returns:
        ``(len(classes), *shape)``.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> model.weight.data = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
        >>> activation_maximisation(model, [0, 1], shape=(2,))
        tensor([[1., 0.],
                [0., 1.]])

    References:
        yang2024regulating, simonyan2014deep
    """
    check_integer("num_steps", num_steps, low=0)
    positive_float("step_size", step_size)
    check_integer("seed", seed, low=0)
    target, (low, high) = Target(target), check_range(valid_range)
    sides = [check_integer("shape", side) for side in shape]
    if not len(classes) or not sides:
        raise InvalidSettingError(
            f"Expected `classes` and `shape` to hold something, but got {list(classes)} and "
            f"{tuple(shape)}."
        )
    numbers = [check_integer("classes", number, low=0) for number in classes]
    first = next((one for one in model.parameters() if one.is_floating_point()), torch.empty(0))
    y = torch.tensor(numbers, device=first.device)
    positions = torch.arange(len(y))
    start = sample_noise(positions, sides, num_draws=1, seed=seed)[0]
    pictures = (low + (high - low) * start).to(first)
    trailing = (1,) * len(sides)
    for _ in range(num_steps):
        with torch.no_grad():
            subject = Subject(model, pictures, y, create_graph=False)
            gradient = subject.probe().gradient(target)
        size = gradient.flatten(1).norm(dim=1).reshape(-1, *trailing)
        step = step_size * gradient / torch.where(size == 0, 1, size)
        pictures = (pictures + step).clamp(low, high)
    return pictures

"""Try every recipe, explainer, MaskTune and certify on nets of other libraries and one's own.

    OMP_NUM_THREADS=1 python benchmarks/foreign_models.py [--nets ViT,Swin] [--out FILE]

Each net is built from its configuration and trained on samples with a planted patch, at a random
place, that alone tells the label. Masks mark the patch. Then each method is tried:

- A recipe works if its loss and gradient are finite, a fit changes the weights, and its gradient
  reaches the first ones, beyond what cross-entropy alone does there. That is looked at in double
  precision: trained nets are so sure that single precision rounds some gradients to zero. Recipes
  of bounds are tried again with a narrow box where they are too wide for a gradient with their
  defaults.
- An explainer works if its map has the right shape and is finite, and its weight lies on the patch:
  a place there has at least twice the weight of a place elsewhere, on average. So it is with
  MaskTune's masks. It is weak if that is not so although the map is right: it is that of a few
  lines of PyTorch (`plain_explanations`). The formula does not find what this net reads then.
- `certify` works if each sample gets a verdict; it checks its bounds against the model by itself.

A cell is "works", "weak", or the sentence of a refusal. Everything else is "wrong". Rows of other
nets that FILE has are kept.
"""

import argparse
import copy
import json
import logging
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

import foreign_nets
import rightreasons as rr
import timing
from plain_explanations import explain_plainly
from rightreasons.core.progress import track
from rightreasons.datasets import Splits, as_dataset
from rightreasons.errors import NonFiniteLossError, RightReasonsError
from rightreasons.explainers import EXPLAINERS, last_spatial_layer, postprocessed
from rightreasons.models import Abstaining
from rightreasons.objectives.recipes import RECIPES
from rightreasons.strategies import MaskTune
from rightreasons.strategies.strategy import Stages

NUM_TRAIN, NUM_UNSEEN, NUM_TRIED, MOST_ROUNDS = 1024, 256, 16, 20
SIZE = 64
LEAST_LIFT, ALIKE = 2.0, 0.95
SAME = 1e-10
"""The relative difference of gradients in double precision from which they are not one."""
NARROW = 1e-5
LIKE_ERM = ("erm", "deep_gamblers", "group_dro")
"""Recipes whose first step may be that of cross-entropy, such as with groups of one size."""


class Wrong(Exception):
    """A result without an error that is not what the method promises."""


def planted_images(num: int) -> rr.Batch:
    """Draw 16 squares of random colours; one alone is red or blue."""
    y = torch.arange(num) % 2
    others = torch.tensor([one for one in product((0.0, 1.0), repeat=3) if sum(one) != 1])
    mask = _one_of(num, 16).reshape(num, 1, 4, 4)
    squares = others[torch.randint(len(others), (num, 4, 4))].movedim(-1, 1)
    of_class = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])[y][:, :, None, None]
    x, mask = (_enlarged(one) for one in (torch.where(mask > 0, of_class, squares), mask))
    return rr.Batch(x=0.1 + 0.7 * x + 0.2 * torch.rand(x.shape), y=y, mask=mask, group=y)


def _enlarged(squares: Tensor) -> Tensor:
    return squares.repeat_interleave(SIZE // 4, 2).repeat_interleave(SIZE // 4, 3)


def planted_signals(num: int) -> rr.Batch:
    """Draw faint noise with four large values, of either sign, in one of the two channels."""
    y = torch.arange(num) % 2
    mask = _one_of(num, 8).repeat_interleave(4, 1)[:, None]
    signs = torch.where(torch.rand(num) < 0.5, 0.1, 0.9)[:, None, None]
    is_large = torch.stack([1 - y, y], dim=1)[:, :, None] * mask > 0
    x = torch.where(is_large, signs, 0.45 + 0.1 * torch.rand(num, 2, 32))
    return rr.Batch(x=x, y=y, mask=mask, group=y)


def planted_embeddings(num: int) -> rr.Batch:
    """Draw sequences of vectors out of 20; four in a row are the vector of the class."""
    tokens = planted_tokens(num)
    table = torch.rand(20, 8, generator=torch.Generator().manual_seed(0))
    return rr.Batch(x=table[tokens.x], y=tokens.y, mask=tokens.mask[:, :, None], group=tokens.group)


def planted_tokens(num: int) -> rr.Batch:
    """Draw token ids from 2 to 19; four in a row are the number of the class."""
    y = torch.arange(num) % 2
    mask = _one_of(num, 4).repeat_interleave(4, 1)
    x = torch.where(mask > 0, y[:, None], torch.randint(2, 20, (num, 16)))
    return rr.Batch(x=x, y=y, mask=mask, group=y)


def planted_table(num: int) -> rr.Batch:
    """Draw columns, four of which tell the class."""
    y = torch.arange(num) % 2
    mask = torch.zeros(num, 16)
    mask[:, 4:8] = 1
    x = torch.where(mask > 0, 0.1 + 0.8 * y[:, None], torch.rand(num, 16))
    return rr.Batch(x=x, y=y, mask=mask, group=y)


def _one_of(num: int, places: int) -> Tensor:
    return nn.functional.one_hot(torch.randint(places, (num,)), places).float()


DRAWN: dict[str, Callable[[int], rr.Batch]] = {
    "1-D CNN": planted_signals,
    "LSTM on embeddings": planted_embeddings,
    "LSTM on token ids": planted_tokens,
    "table MLP": planted_table,
}
TABLE = -1
PLACES = {"1-D CNN": 2, "LSTM on embeddings": 1, "LSTM on token ids": 1, "table MLP": TABLE}
"""The axis along which a patch is moved; 3 for images."""


def try_recipe(name: str, net: nn.Module, batch: rr.Batch) -> str:
    """Try a recipe, with a smaller box if its bounds are too wide for a gradient."""
    try:
        return _try_recipe(name, copy.deepcopy(net), batch)
    except (Wrong, NonFiniteLossError):
        if name not in ("cert_r4", "ibp_ex", "ibp_ex_r3"):
            raise
    return f"{_try_recipe(name, net, batch, epsilon=NARROW)} with epsilon={NARROW:g}"


def _try_recipe(name: str, net: nn.Module, batch: rr.Batch, **settings: float) -> str:
    """Take the gradient of a recipe, then an epoch; say "works"."""
    objective = RECIPES.create(name, **settings)
    if name == "deep_gamblers":
        net = Abstaining(nn.Sequential(net, nn.Linear(2, 3)))
    objective.prepare(as_dataset(batch), num_passes=2)
    net.eval()  # nothing is dropped: differences are the recipe's
    # With as many samples of each class, slopes of opposite sign may cancel at the last bias.
    uneven = batch[: len(batch) - 1]
    if not all(
        bool(torch.isfinite(one).all()) for one in _gradients(objective, net, uneven).values()
    ):
        raise Wrong("the gradient is not finite")
    precise, uneven = copy.deepcopy(net).double(), uneven.to(torch.float64)
    moved = _gradients(objective, precise, uneven)
    plain = moved if name == "deep_gamblers" else _gradients(rr.recipes.erm(), precise, uneven)
    sizes = {one: float(slope.abs().max()) for one, slope in plain.items()}
    reached = [one for one, size in sizes.items() if size > 1e-6 * max(sizes.values())]
    unreached = [one for one in reached if one not in moved or not moved[one].any()]
    if unreached:
        raise Wrong(f"no gradient reaches {unreached[0]}")
    first = next(iter(plain))
    if name not in LIKE_ERM and torch.allclose(moved[first], plain[first], rtol=SAME, atol=0):
        raise Wrong(f"the gradient at {first} is that of cross-entropy alone")
    before = copy.deepcopy(net.state_dict())
    fitted = rr.fit(
        net, RECIPES.create(name, **settings), batch, epochs=1, batch_size=8, accelerator="cpu"
    )
    parts = fitted.history[-1]["parts"].values()
    if not all(math.isfinite(part) for part in parts):
        raise Wrong("the loss of an epoch is not finite")
    if all(torch.equal(before[one], value) for one, value in net.state_dict().items()):
        raise Wrong("an epoch changes nothing")
    return "works"


def _gradients(objective: rr.Objective, net: nn.Module, batch: rr.Batch) -> dict[str, Tensor]:
    net.zero_grad()
    torch.manual_seed(0)
    loss = objective(net, batch)
    if not bool(torch.isfinite(loss.total)):
        raise Wrong("the loss is not finite")
    loss.backward()
    given = {name: one.grad for name, one in net.named_parameters() if one.grad is not None}
    return {name: one.clone() for name, one in given.items()}


def try_explainer(name: str, net: nn.Module, batch: rr.Batch, axis: int) -> str:
    """Explain the samples and look at the weight on the patch."""
    settings: dict[str, int] = {}
    if name == "occlusion" and batch.x.ndim == 3:
        settings["channel_axis"] = -1 if axis == 1 else 1
    net.eval()

    def in_places(attribution: Tensor) -> Tensor:
        heat = postprocessed(attribution, channel_axis=-1 if axis == 1 else 1)
        return heat[..., 0] if axis == 1 and heat.ndim == 3 else heat

    def explain(x: Tensor) -> Tensor:
        return in_places(EXPLAINERS.create(name, **settings)(net, x, batch.y))

    def is_as_defined() -> bool:
        """In double precision: XGrad-CAM divides by sums that are near zero behind a LayerNorm."""
        axes = [1] if axis in (1, TABLE) else list(range(2, batch.x.ndim))
        net.double()
        x = batch.x.double() if batch.x.is_floating_point() else batch.x
        heat = explain(x)
        layer = last_spatial_layer(net, x) if "cam" in name else ""
        plain = explain_plainly(name, net, x, batch.y, axes, layer)
        if plain is None:
            return False
        return are_alike(heat, in_places(plain))

    return judge(explain, batch, axis, is_as_defined)


def judge(
    explain: Callable[[Tensor], Tensor],
    batch: rr.Batch,
    axis: int,
    is_as_defined: Callable[[], bool],
) -> str:
    """Say where the weight of maps is, and whether they are right where it is elsewhere."""
    mask = batch.mask
    assert mask is not None
    mask = mask[..., 0] if axis == 1 and mask.ndim == 3 else mask
    heat = explain(batch.x)
    if heat.shape != mask.shape or not bool(torch.isfinite(heat).all()):
        raise Wrong(f"the map has shape {tuple(heat.shape)}, or is not finite")
    lift = lift_of(heat, mask)
    if lift >= LEAST_LIFT:
        return f"works ({lift:.1f})"
    if is_as_defined():
        return f"weak ({lift:.1f})"
    raise Wrong(f"a place of the patch has only {lift:.1f} times the weight of another")


def are_alike(heat: Tensor, plain: Tensor) -> bool:
    """Whether maps have nearly the same direction; a map of zeros is like another one alone."""
    cosines = nn.functional.cosine_similarity(heat.flatten(1), plain.flatten(1))
    is_empty = ~heat.flatten(1).any(dim=1) & ~plain.flatten(1).any(dim=1)
    return float(torch.where(is_empty, 1.0, cosines).mean()) > ALIKE


def lift_of(heat: Tensor, mask: Tensor) -> float:
    """How much weight a place of the patch has, beside a place elsewhere."""
    total = heat.flatten(1).sum(dim=1)
    share = float(((heat * mask).flatten(1).sum(dim=1) / torch.where(total > 0, total, 1)).mean())
    area = float(mask.mean())
    return min(share / area * (1 - area) / max(1 - share, 1e-6), 99.0)


def try_masktune(net: nn.Module, batch: rr.Batch) -> str:
    """Mask what the net used, look at the weight on the patch, then run the whole strategy."""
    data = as_dataset(batch)
    parts = Splits(train=data, val=None, test=data)
    said = ""
    if batch.x.ndim == 4:
        stages = Stages(parts, out=None, resume=False, settings={"accelerator": "cpu"})
        cover = MaskTune().masks(net.eval(), stages).at(torch.arange(len(batch))).float()
        lift = lift_of(cover, batch.mask)
        said = f"works ({lift:.1f})"
        if lift < LEAST_LIFT:  # masks are cut from these maps, so they are as good
            try_explainer("xgrad_cam", copy.deepcopy(net), batch, 3)  # raises if it is wrong
            said = f"weak ({lift:.1f})"
    settings = {"epochs": 1, "batch_size": 8, "accelerator": "cpu"}
    MaskTune().fit(net, rr.recipes.erm(), parts, **settings)
    return said


def try_certify(net: nn.Module, batch: rr.Batch) -> str:
    """Certify the samples for very small changes, and count the verdicts."""
    valid_range = (0.0, 1.0 if batch.x.is_floating_point() else 19.0)
    certificate = rr.certify(
        net.eval(),
        batch[:4],
        epsilon=NARROW,
        valid_range=valid_range,
        num_steps=2,
        num_restarts=1,
    )
    found = [one.status for one in certificate.samples]
    counts = [
        f"{found.count(one)} {one}" for one in ("verified", "refuted", "unknown") if one in found
    ]
    return f"works ({', '.join(counts)})"


def cell(attempt: Callable[[], str]) -> str:
    """What an attempt says, its refusal, or what is wrong."""
    torch.manual_seed(0)
    try:
        return attempt()
    except RightReasonsError as error:
        return f"refused: {' '.join(str(error).split())}"
    except Wrong as error:
        return f"wrong: {error}"
    except Exception as error:  # no method may end like that
        return f"wrong: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def try_net(name: str, make: Callable[..., nn.Module]) -> dict[str, object]:
    """Train a net on planted patches and try everything on it."""
    torch.manual_seed(0)
    draw = DRAWN.get(name, planted_images)
    net = make() if name in DRAWN else make(size=SIZE)
    train, unseen, tried = draw(NUM_TRAIN), draw(NUM_UNSEEN), draw(NUM_TRIED)
    for _ in range(MOST_ROUNDS):
        settings = {"epochs": 2, "batch_size": 32, "lr": 1e-3, "accelerator": "cpu"}
        rr.fit(net, rr.recipes.erm(), train, scheduler="constant", **settings)
        right = rr.evaluate(net, unseen, ["accuracy"])["accuracy"]
        if right > 0.99 and name not in DRAWN:  # small nets learn on to ignore what tells nothing
            break

    def attempt(function: Callable[..., str], *before: object, **more: object) -> str:
        return cell(lambda: function(*before, copy.deepcopy(net), tried, **more))

    axis = PLACES.get(name, 3)
    return {
        "accuracy": right,
        "explainers": {one: attempt(try_explainer, one, axis=axis) for one in EXPLAINERS},
        "MaskTune": attempt(try_masktune),
        "certify": attempt(try_certify),
        "recipes": {one: attempt(try_recipe, one) for one in RECIPES},
    }


def main() -> None:
    known = {**foreign_nets.NETS, **foreign_nets.OTHER_NETS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nets", default=",".join(known))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    logging.getLogger("rightreasons").setLevel(logging.ERROR)  # no diagnosis of so short fits
    names = options.nets.split(",")
    kept = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    rows = kept.get("nets", {})
    for name in track(names, "Nets", total=len(names)):  # a net's rows are kept when it is done
        rows[name] = try_net(name, known[name])
        rows = {one: rows[one] for one in known if one in rows}
        timing.publish({"nets": rows, "machine": timing.machine()}, options.out)


if __name__ == "__main__":
    main()

"""Explainers, attacks and measures of other libraries beside those here, on one net and images."""

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import rightreasons as rr
from beside import measure
from beside.cases import IMAGE, corner_images
from rightreasons import attacks, explainers, metrics
from timing import Step

INSTALL = {
    "captum": "pip install captum",
    "zennit": "pip install zennit torchvision",
    "foolbox": "pip install foolbox",
    "torchattacks": "pip install torchattacks",
    "quantus": "pip install quantus",
}
STEPS, EPSILON = 20, 0.03
RATIOS = tuple(step / 16 for step in range(16))
Pair = tuple[str, str, Step, Step]
"""What is done, by which library, the step here and the step there."""


def pairs(model: nn.Module, batch: rr.Batch) -> Iterator[Pair]:
    """Make every pair whose library is installed."""
    for library, make in MAKERS.items():
        if is_installed(library):
            for what, ours, theirs in make(model, batch):
                yield what, library, ours, theirs


def is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def compare(images: int = 32) -> dict[str, Any]:
    """Ratios of the time there to the time here, and what to install for those left out."""
    torch.manual_seed(0)
    model = rr.models.create("lenet", **IMAGE).eval()
    batch = corner_images(images, (3, 32, 32))
    with torch.no_grad():  # predictions as labels: no image is fooled before an attack begins
        batch = batch.with_(y=model(batch.x).argmax(dim=1))
    rows = []
    for what, library, ours, theirs in pairs(model, batch):
        times = measure.take_turns({"ours": ours, "theirs": theirs}, seconds=3)
        beside = measure.ratio(times, "theirs", "ours")
        rows.append({"what": what, "library": library, "theirs beside ours": beside})
    missing = {name: how for name, how in INSTALL.items() if not is_installed(name)}
    return {"net": "LeNet, 32 x 32", "images": images, "rows": rows, "not installed": missing}


Made = Iterator[tuple[str, Step, Step]]


def of_captum(model: nn.Module, batch: rr.Batch) -> Made:
    from captum import attr

    x, y = batch.x, batch.y
    last = model.get_submodule(explainers.last_spatial_layer(model, x))
    smooth = attr.NoiseTunnel(attr.Saliency(model))

    def ours(explainer: explainers.Explainer) -> Step:
        return lambda: explainer(model, x, y)

    yield (
        "input gradient",
        ours(explainers.InputGradient()),
        lambda: attr.Saliency(model).attribute(x, target=y, abs=False),
    )
    yield (
        "integrated gradients, 20 steps",
        ours(explainers.IntegratedGradients(num_steps=20)),
        lambda: attr.IntegratedGradients(model).attribute(x, target=y, n_steps=20),
    )
    yield (
        "SmoothGrad, 20 draws",
        ours(explainers.SmoothGrad(num_draws=20)),
        lambda: smooth.attribute(x, target=y, nt_samples=20, stdevs=0.15, abs=False),
    )
    yield (
        "guided backpropagation",
        ours(explainers.GuidedBackprop()),
        lambda: attr.GuidedBackprop(model).attribute(x, target=y),
    )
    window: dict[str, Any] = {"sliding_window_shapes": (3, 4, 4), "strides": (3, 4, 4)}
    yield (
        "occlusion, 4 x 4",
        ours(explainers.Occlusion()),
        lambda: attr.Occlusion(model).attribute(x, target=y, **window),
    )
    yield (
        "Grad-CAM",
        ours(explainers.GradCAM()),
        lambda: attr.LayerGradCam(model, last).attribute(x, target=y),
    )
    yield from captum_sensitivity(model, batch)


def captum_sensitivity(model: nn.Module, batch: rr.Batch) -> Made:
    """How far explanations move in a small box: ten draws each."""
    from captum import attr
    from captum.metrics import sensitivity_max

    saliency = attr.Saliency(model)
    metric = metrics.RPS(epsilons=EPSILON, num_draws=10)
    yield (
        "change of the input gradient, 10 draws",
        lambda: rr.evaluate(model, batch, [metric]),
        lambda: sensitivity_max(
            saliency.attribute,
            batch.x,
            perturb_radius=EPSILON,
            n_perturb_samples=10,
            target=batch.y,
        ),
    )


def of_zennit(model: nn.Module, batch: rr.Batch) -> Made:
    from zennit import attribution, composites

    x, one_hot = batch.x, torch.eye(10)[batch.y]
    composite = composites.EpsilonPlusFlat()

    def relevance() -> None:
        with attribution.Gradient(model, composite) as attributor:
            attributor(x, one_hot)

    def smooth() -> None:
        with attribution.SmoothGrad(model, noise_level=0.15, n_iter=20) as attributor:
            attributor(x, one_hot)

    yield "LRP", lambda: explainers.LRP()(model, x, batch.y), relevance
    draws = explainers.SmoothGrad(num_draws=20)
    yield "SmoothGrad, 20 draws", lambda: draws(model, x, batch.y), smooth


def of_foolbox(model: nn.Module, batch: rr.Batch) -> Made:
    import foolbox

    def theirs(kind: Callable[..., Any], **settings: Any) -> Step:
        attack = kind(**settings)

        def step() -> None:
            net = foolbox.PyTorchModel(model, bounds=(0, 1))
            attack(net, batch.x, batch.y, epsilons=EPSILON)

        return step

    stride = {"abs_stepsize": EPSILON / 8, "rel_stepsize": None}
    pgd = attacks.PGD(epsilon=EPSILON, num_steps=STEPS, step_size=EPSILON / 8)
    yield (
        f"PGD, {STEPS} steps",
        lambda: pgd(model, batch.x, batch.y),
        theirs(foolbox.attacks.LinfPGD, steps=STEPS, **stride),
    )
    fgsm = attacks.FGSM(epsilon=EPSILON)
    yield (
        "FGSM",
        lambda: fgsm(model, batch.x, batch.y),
        theirs(foolbox.attacks.LinfFastGradientAttack),
    )


def of_torchattacks(model: nn.Module, batch: rr.Batch) -> Made:
    import torchattacks

    settings = {"eps": EPSILON, "steps": STEPS}
    pgd = torchattacks.PGD(model, alpha=EPSILON / 8, **settings)
    apgd = torchattacks.APGD(model, **settings)
    ours = attacks.PGD(epsilon=EPSILON, num_steps=STEPS, step_size=EPSILON / 8)
    adaptive = attacks.APGD(epsilon=EPSILON, num_steps=STEPS)
    x, y = batch.x, batch.y
    yield f"PGD, {STEPS} steps", lambda: ours(model, x, y), lambda: pgd(x, y)
    yield f"APGD, {STEPS} steps", lambda: adaptive(model, x, y), lambda: apgd(x, y)


def of_quantus(model: nn.Module, batch: rr.Batch) -> Made:
    import quantus

    quiet = {"normalise": False, "disable_warnings": True, "display_progressbar": False}
    arrays = {"x_batch": batch.x.numpy(), "y_batch": batch.y.numpy()}
    mask = batch.mask.numpy().astype(bool)

    def maps(model: nn.Module, inputs: np.ndarray, targets: np.ndarray, **_: Any) -> np.ndarray:
        x, y = torch.as_tensor(inputs).float(), torch.as_tensor(targets).long()
        found: Tensor = explainers.InputGradient()(model, x, y).abs().sum(dim=1, keepdim=True)
        return found.numpy()

    def theirs(metric: Any, **more: Any) -> Step:
        call = {"model": model, **arrays, "a_batch": None, "explain_func": maps}
        return lambda: metric(**call, channel_first=True, **more)

    flipping = quantus.PixelFlipping(features_in_step=64, perturb_baseline=0.0, abs=False, **quiet)
    removal, mass = metrics.Deletion(ratios=RATIOS), metrics.InputGradientMass()
    yield (
        "deletion, 16 steps",
        lambda: rr.evaluate(model, batch, [removal]),
        theirs(flipping, softmax=True),
    )
    share = quantus.RelevanceMassAccuracy(abs=True, **quiet)
    yield (
        "share of the gradient inside the mask",
        lambda: rr.evaluate(model, batch, [mass]),
        theirs(share, s_batch=mask),
    )


MAKERS: dict[str, Callable[[nn.Module, rr.Batch], Made]] = {
    "captum": of_captum,
    "zennit": of_zennit,
    "foolbox": of_foolbox,
    "torchattacks": of_torchattacks,
    "quantus": of_quantus,
}

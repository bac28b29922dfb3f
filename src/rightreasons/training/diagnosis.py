"""The diagnosis of a fit: does the model fit, does it read masked parts, and what to try."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import torch
from lightning_fabric import Fabric
from torch import Tensor

from rightreasons.datasets.dataset import Dataset
from rightreasons.objectives.recipes import RECIPES
from rightreasons.training.distributed import seeded
from rightreasons.training.examination import Examination, MaskFacts, examine, look_at_masks
from rightreasons.training.state import Training

__all__ = ["Diagnosis", "diagnose", "diagnose_training", "inspect_masks"]

logger = logging.getLogger("rightreasons.diagnosis")  # commands print the diagnosis themselves

LARGE_GAP = 0.15
LARGE_CLASS_GAP = 0.25
FEW_CHANGED = 0.1
GOOD_FIT = 0.8  # before that, a class that is not learned yet is no sign of a shortcut
POLARITY = (
    "A mask must be 1 where the model must *not* look. If these masks mark what it should look "
    "at, invert them: mask_polarity='relevant' for image files (--set-data "
    "mask_polarity=relevant), `1 - mask` for tensors."
)


@dataclass(frozen=True)
class Diagnosis:
    """Whether a fit succeeded.

    Args:
        learned: Whether the model fits the training data: it predicts better than the most
            frequent class does.
        message: Sentences for the user, with the remedy if there is one to offer.
        suspects: Penalties whose gradient was larger than the task's, if it did not learn.
        findings: Names of what is wrong, for programs; empty if nothing was found.
        measures: The numbers behind the findings.
    """

    learned: bool
    message: str
    suspects: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)


def inspect_masks(data: Dataset, fabric: Fabric) -> MaskFacts:
    """Look at training masks, and ask before time is spent on training if they look inverted."""
    masks = look_at_masks(data)
    if masks.looks_inverted and fabric.is_global_zero:
        logger.warning("%s Is the polarity right? %s", masks.looks_inverted, POLARITY)
    return masks


def diagnose_training(training: Training, masks: MaskFacts) -> Diagnosis:
    """Examine the model of a finished training, judge it, and log what was found."""
    objective, history = training.objective, training.progress.history
    with seeded(training.settings.seed):  # what is measured here changes no random stream
        examination = examine(
            training.model,
            training.data,
            training.validation,
            batch_size=training.settings.known("batch_size"),
        )
    diagnosis = diagnose(
        history[-1].get("accuracy", 0.0),
        training.data.labels,
        objective.weights,
        objective.task,
        [row["pulls"] for row in history],
        examination=examination,
        masks=masks,
        gradient_penalties=[name for name, term in objective.terms.items() if term.needs_gradient],
    )
    if diagnosis.findings and training.fabric.is_global_zero:
        logger.warning(diagnosis.message)
    return diagnosis


def diagnose(
    accuracy: float,
    labels: Tensor,
    weights: Mapping[str, float],
    task: str,
    norms_by_epoch: list[Mapping[str, float]],
    *,
    examination: Examination | None = None,
    masks: MaskFacts | None = None,
    gradient_penalties: Collection[str] = (),
) -> Diagnosis:
    """Judge a finished fit.

    Args:
        accuracy: Accuracy on the training samples, during the last epoch.
        labels: Labels of the training samples.
        weights: Weights of the objective's terms.
        task: Name of the term that is the task, not a penalty.
        norms_by_epoch: The gradient norms of each epoch.
        examination: What the swap of masked parts showed; None if nothing was swapped.
        masks: What the training masks look like.
        gradient_penalties: Names of the terms that read input gradients.
    """
    fits = _judge_fit(accuracy, labels, weights, task, norms_by_epoch)
    if examination is None and masks is None:
        return fits
    masks = masks or MaskFacts()
    found: dict[str, str] = dict.fromkeys(fits.findings, "")
    off = [name for name, weight in weights.items() if name != task and weight == 0]
    if off:
        found["penalty_off"] = f"The weight of {_join(off)} is 0, so it did nothing."
    neutral, measures = "", dict(fits.measures)
    if examination is not None:
        measures |= _measures(examination)
        pulling = [name for name in gradient_penalties if weights.get(name, 0) > 0]
        if examination.reads_mask:
            found["reads_mask"] = _describe_cost(examination)
            if examination.is_unsure and pulling:
                found["shrunken_logits"] = _describe_shrinking(examination, pulling)
        elif fits.learned:
            neutral = _describe_cost(examination) if measures["changed"] else ""
            found |= _find_gaps(examination) if accuracy >= GOOD_FIT else {}
        if measures["changed"] < FEW_CHANGED:
            changed = f"{measures['changed']:.0%} of the samples"
            found["swap_says_little"] = f"The swap changed only {changed}, so it says little."
    if masks.tell_class:
        found["masks_tell_class"] = (
            "Classes differ in how often or where they carry masks: a penalty on masked features "
            "cannot teach that their absence says nothing."
        )
    if masks.looks_inverted:
        found["polarity"] = f"{masks.looks_inverted} Is the polarity right? {POLARITY}"
    elif masks.on_object and ("reads_mask" in found or not fits.learned):
        found["polarity"] = (
            f"The masks lie on the middle of the images, where objects are. Is the polarity right? "
            f"{POLARITY}"
        )
    if "reads_mask" in found:
        found["reads_mask"] += f" {_advise(weights, task, off)}"
    sentences = [fits.message, neutral, *found.values()]
    message = " ".join(sentence for sentence in sentences if sentence)
    return Diagnosis(fits.learned, message, fits.suspects, tuple(found), measures)


def _judge_fit(
    accuracy: float,
    labels: Tensor,
    weights: Mapping[str, float],
    task: str,
    norms_by_epoch: list[Mapping[str, float]],
) -> Diagnosis:
    size = len(labels)
    frequent = float(torch.bincount(labels).max()) / size
    margin = max(0.02, 3 * math.sqrt(frequent * (1 - frequent) / size))
    if frequent == 1:
        return Diagnosis(True, "All training samples are of one class: there is nothing to learn.")
    compared = f"training accuracy {accuracy:.3f}, most frequent class {frequent:.3f}"
    if accuracy > frequent + min(margin, (1 - frequent) / 2):
        return Diagnosis(True, f"The model fits the training data ({compared}).")
    penalties = [name for name in weights if name != task]
    ratios = {
        name: max((_ratio(norms[name], norms[task]) for norms in norms_by_epoch), default=0.0)
        for name in penalties
    }
    suspects = tuple(name for name in penalties if ratios[name] > 1)
    if suspects:
        accusations = "; ".join(
            f"`{name}` (weight {weights[name]:g}) pulled up to {ratios[name]:.3g} times as hard as "
            f"`{task}`"
            for name in suspects
        )
        message = (
            f"A penalty switched learning off ({compared}): {accusations}. Lower its weight, or "
            'use weight="auto".'
        )
        return Diagnosis(False, message, suspects, ("learning_switched_off",))
    message = (
        f"The model did not learn ({compared}), and no penalty pulled harder than the task. Try "
        "more epochs, another learning rate or a larger model."
    )
    return Diagnosis(False, message, (), ("does_not_fit",))


def _describe_cost(found: Examination) -> str:
    values, samples = found.values, f"{found.num_samples} {found.part} samples"
    after = values["swap_accuracy/before"] - found.cost
    before_and_after = f"accuracy {values['swap_accuracy/before']:.3f} before, {after:.3f} after"
    if found.reads_mask:
        return (
            f"The model still reads the masked part: swapping it costs {100 * found.cost:.0f} "
            f"points on {samples} ({before_and_after})."
        )
    return (
        f"Swapping the masked part costs {max(100 * found.cost, 0.0):.1f} points on {samples}; "
        "what no mask covers was not tested."
    )


def _describe_shrinking(found: Examination, penalties: list[str]) -> str:
    right, confidence = found.values["answers/accuracy"], found.values["answers/confidence"]
    return (
        f"The penalty {_join(penalties)} was met by shrinking the logits: {right:.0%} of the "
        f"answers are right, at a mean confidence of {confidence:.0%}. Small logits have small "
        "gradients wherever the model looks."
    )


def _advise(weights: Mapping[str, float], task: str, off: list[str]) -> str:
    """What to try against a model that reads the masked part."""
    copies = any("counter" in name for name in weights)
    known = "counterexamples" in RECIPES and not copies
    first = "the recipe `counterexamples`" if known else ""
    penalties = [name for name in weights if name not in (task, "weight_decay")]
    if off:
        second = "a weight above 0"
    elif copies and not penalties:
        second = "masks that cover the whole shortcut, or counterexamples with source=`moved`"
    elif not penalties:
        second = "" if known else "a recipe that uses the masks, such as `r3`"
    else:
        second = "longer training with masks that cover the whole shortcut"
    return f"Try {' or '.join(part for part in (first, second) if part)}."


def _find_gaps(found: Examination) -> dict[str, str]:
    """A group or a class far below the others, which the masked part does not explain."""
    values = found.values
    names = [name.removesuffix("/n") for name in values if name.endswith("/n")]
    groups = [name for name in names if name.startswith("group_accuracy/")]
    average, low = (values.get(f"group_accuracy/average{end}", 0.0) for end in ("", "/low"))
    below = [name for name in groups if low > values[f"{name}/high"]]
    worst = min(below, key=lambda name: values[name], default=None)
    who = ""
    if worst is not None and average - values[worst] >= LARGE_GAP:
        who = f"the group “{worst.removeprefix('group_accuracy/')}”"
        right, usual = values[worst], average
    else:
        classes = {name: values[name] for name in values if name.startswith("answers/class/")}
        usual = sum(classes.values()) / max(len(classes), 1)
        worst = min(classes, key=lambda name: classes[name], default=None)
        if worst is not None and usual - classes[worst] >= LARGE_CLASS_GAP:
            count = values[worst.replace("/class/", "/count/")]
            noise = 3 * math.sqrt(usual * (1 - usual) / count)
            right = classes[worst]
            who = f"the class “{worst.split('/', 2)[2]}”" if usual - right > noise else ""
    if not who:
        return {}
    return {
        "gap_elsewhere": (
            f"Yet {who} is right {right:.0%} of the time, {usual:.0%} on average. There may be a "
            "shortcut outside the masks, or it is hard; masks alone cannot tell. Look at its "
            "errors, and mask what they have in common."
        )
    }


def _measures(found: Examination) -> dict[str, float]:
    names = {
        "before": "swap_accuracy/before",
        "cost": "swap_accuracy/cost",
        "cost_low": "swap_accuracy/cost/low",
        "cost_high": "swap_accuracy/cost/high",
        "changed": "swap_accuracy/changed",
        "pasted": "swap_accuracy/pasted",
        "blurred": "swap_accuracy/blurred",
        "removed": "swap_accuracy/removed",
        "accuracy": "answers/accuracy",
        "confidence": "answers/confidence",
        "worst_group": "group_accuracy/worst",
    }
    measures = {name: found.values[key] for name, key in names.items() if key in found.values}
    on_validation = float(found.part == "validation")
    return {"samples": float(found.num_samples), "on_validation": on_validation, **measures}


def _join(names: list[str]) -> str:
    return " + ".join(f"`{name}`" for name in names)


def _ratio(penalty: float, task: float) -> float:
    if task > 0:
        return penalty / task
    return math.inf if penalty > 0 else 0.0

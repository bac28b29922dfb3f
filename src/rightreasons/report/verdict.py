"""The verdict on a section: fixed rules turn numbers into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rightreasons.report.caution import list_cautions
from rightreasons.report.estimate import Estimate, clearly_above
from rightreasons.report.section import BASELINE, Method, Section
from rightreasons.report.wording import join_names, percent, points

__all__ = ["Reliance", "Verdict", "find_reliance", "judge_section"]

LARGE_GAP = 0.15
LARGE_RATIO = 1.5
LARGE_DROP = 0.05
PARTS = ("validation", "test")

Tone = Literal["good", "mixed", "bad", "unclear"]

JUDGED_BY = {
    "group_accuracy/worst": "in the worst group",
    "swap_accuracy": "after what the mask covers was exchanged",
    "accuracy": "over all test samples",
}
SAME_GAP = 0.01
BLIND = "The data have neither masks nor groups, so nothing measured here can see a shortcut."


@dataclass(frozen=True)
class Reliance:
    """Signs of a shortcut in one method.

    Args:
        mass: Fraction of the input gradient inside the mask.
        area: Fraction of the input that the mask covers.
        before: Accuracy on unchanged samples.
        after: Accuracy after masked features were exchanged.
        swapped_on: Part of the data of ``before`` and ``after``. Validation data if possible:
            they have the shortcut whenever the training data have it.
        signs: Phrases, one for each sign.
        gap: By how much the worst group is below the average, if clearly and by much; else 0.
        is_known: Whether anything was measured that could be a sign.
    """

    mass: float | None
    area: float | None
    before: float | None
    after: float | None
    swapped_on: str
    signs: tuple[str, ...]
    gap: float
    is_known: bool


def find_reliance(method: Method) -> Reliance:
    """Look for signs of a shortcut.

    One sign is an input gradient that is denser inside the mask than outside: half as much again
    as the mask's fraction of the input. Another is an accuracy that drops by 5 points when masked
    features are exchanged. If neither is known, a worst group clearly, and by 15 points, below the
    average is a sign. A group can also be hard, so this one does not count beside the others.
    """
    mass, area = method.estimate("input_gradient_mass"), method.estimate("input_gradient_mass/area")
    average = method.estimate("group_accuracy/average")
    worst = method.estimate("group_accuracy/worst")
    before = after = None
    part = ""
    for part in PARTS:
        before, after = method.estimate("accuracy", part), method.estimate("swap_accuracy", part)
        if before is not None and after is not None:
            break
    signs = []
    if mass is not None and area is not None and mass.value > LARGE_RATIO * area.value > 0:
        signs.append(f"{mass.value / area.value:.1f} times the mask's share of the input gradient")
    if before is not None and after is not None and before.value - after.value >= LARGE_DROP:
        signs.append(f"{points(before.value - after.value)} lost when the masked part is exchanged")
    swapped = before is not None and after is not None
    tested = swapped or (mass is not None and area is not None)
    gap = _clear_gap(average, worst)
    if gap and not tested:
        signs.append(f"a worst group {points(gap)} below the average")
    return Reliance(
        mass=mass.value if mass else None,
        area=area.value if area else None,
        before=before.value if before and swapped else None,
        after=after.value if after and swapped else None,
        swapped_on=part if swapped else "",
        signs=tuple(signs),
        gap=gap,
        is_known=tested or worst is not None,
    )


def _clear_gap(average: Estimate | None, worst: Estimate | None) -> float:
    if average is None or worst is None or not clearly_above(average, worst):
        return 0.0
    gap = average.value - worst.value
    return gap if gap >= LARGE_GAP else 0.0


@dataclass(frozen=True)
class Verdict:
    """The answer to "right for the right reasons?", as far as the numbers go.

    Args:
        tone: Decides the colour.
        badge: Two or three words.
        headline: One sentence.
        sentences: The evidence.
        cautions: The limits of the comparison.
        compared: The compared methods, the reference first.
    """

    tone: Tone
    badge: str
    headline: str
    sentences: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    compared: tuple[Method, ...] = ()


def judge_section(section: Section) -> Verdict:
    """Judge the methods tried on one data set.

    Methods that did not learn are left out. The others are compared by the accuracy in the worst
    group; if not all have it, by the accuracy after a swap; else by the accuracy. One is better
    than another only if their intervals do not overlap.
    """
    cautions = list_cautions(section)
    learned = [method for method in section.methods if method.learned]
    if not learned:
        names = join_names([method.label for method in section.methods])
        headline = f"The training of {names} failed: no better than always the most frequent class."
        return Verdict("bad", "Not learned", headline, (), cautions)
    key = next((k for k in JUDGED_BY if all(m.estimate(k) for m in learned)), None)
    if key is None:
        headline = "The runs share no measure of accuracy on test data, so nothing can be said."
        return Verdict("unclear", "Cannot tell", headline, (), cautions)
    ranked = sorted(learned, key=lambda method: -_value(method, key))
    if len(ranked) == 1:
        return _alone(ranked[0], key, cautions)
    return _compared(ranked, key, cautions)


def _alone(method: Method, key: str, cautions: tuple[str, ...]) -> Verdict:
    label, reliance = method.label, find_reliance(method)
    right = f"{percent(_value(method, key))} right {JUDGED_BY[key]}"
    sentences = (*_spread_sentence([method]), *_reliance_sentences([method]))
    if not reliance.is_known:
        headline = f"{label} is {right}; whether for the right reasons, these data cannot tell."
        return Verdict("unclear", "Cannot tell", headline, (*sentences, BLIND), cautions, (method,))
    if reliance.signs:
        headline = f"{label} is {right}, and there are signs that it takes the shortcut."
        return Verdict("bad", "Signs of a shortcut", headline, sentences, cautions, (method,))
    headline = f"{label} is {right}, and nothing measured here points to a shortcut."
    return Verdict("good", "No sign of a shortcut", headline, sentences, cautions, (method,))


def _compared(ranked: Sequence[Method], key: str, cautions: tuple[str, ...]) -> Verdict:
    best, where = ranked[0], JUDGED_BY[key]
    baseline = next((method for method in ranked if method.recipe == BASELINE), None)
    other = ranked[1] if baseline is None or baseline is best else baseline
    figures = f"{percent(_value(best, key))} right {where}, against {percent(_value(other, key))}"
    pair = (other, best)
    sentences = (
        *_spread_sentence(pair),
        *_reliance_sentences(pair),
        *_cost_sentence(best, other, key),
        *_others_sentence(ranked, best, other, key),
    )
    one, two = _estimate(best, key), _estimate(other, key)
    if not clearly_above(one, two):
        why = (
            "The intervals overlap"
            if one.has_interval and two.has_interval
            else "There is no interval to judge it by"
        )
        headline = f"No clear difference between {best.label} and {other.label}: {figures}."
        sentences = (f"{why}, so the difference may be chance.", *sentences)
        return Verdict("unclear", "No clear difference", headline, sentences, cautions, pair)
    headline = f"{best.label} is clearly better than {other.label}: {figures}."
    if best.recipe == BASELINE:
        return Verdict("bad", "No improvement", headline, sentences, cautions, pair)
    reliance = find_reliance(best)
    if not reliance.is_known:
        return Verdict("mixed", "More accurate", headline, (*sentences, BLIND), cautions, pair)
    if reliance.signs:
        what = f"{best.label} still shows signs of the shortcut: {join_names(reliance.signs)}."
        return Verdict("mixed", "Better, not solved", headline, (*sentences, what), cautions, pair)
    badge = "Clearly better" if baseline is None else "Clear improvement"
    sentences = (*sentences, _clean_sentence(best, reliance))
    return Verdict("good", badge, headline, sentences, cautions, pair)


def _spread_sentence(methods: Sequence[Method]) -> tuple[str, ...]:
    """The gap between the average and the worst group, and how it changed."""
    averages, gaps = [], []
    for method in methods:
        average = method.estimate("group_accuracy/average")
        worst = method.estimate("group_accuracy/worst")
        if average is None or worst is None:
            return ()
        gaps.append(average.value - worst.value)
        averages.append(f"{percent(average.value)} of the time with {method.label}")
    right = f"Averaged over groups, answers are right {join_names(averages)}"
    if len(gaps) == 1:
        return (f"{right}; the worst group is {points(gaps[0])} below that.",)
    before, after = gaps
    change = (
        f"stayed about the same ({points(after)})"
        if abs(after - before) < SAME_GAP
        else f"{'fell' if after < before else 'grew'} from {points(before)} to {points(after)}"
    )
    return (f"{right}. The gap between the average and the worst group {change}.",)


def _reliance_sentences(methods: Sequence[Method]) -> tuple[str, ...]:
    reliances = {method.label: find_reliance(method) for method in methods}
    sentences = []
    areas = [r.area for r in reliances.values() if r.area is not None]
    shares = [
        f"{percent(r.mass)} for {label}" for label, r in reliances.items() if r.mass is not None
    ]
    if areas and shares:
        sentences.append(
            f"The mask covers {percent(max(areas))} of the input. Of the input gradient, which "
            f"shows what the model reacts to, it holds {join_names(shares)}."
        )
    swaps = [
        f"{label} from {percent(r.before)} to {percent(r.after)}"
        for label, r in reliances.items()
        if r.before is not None and r.after is not None
    ]
    parts = {r.swapped_on for r in reliances.values() if r.swapped_on}
    if swaps and len(parts) == 1:
        sentences.append(
            f"Exchanging what the mask covers between {parts.pop()} samples takes the accuracy of "
            f"{join_names(swaps)}."
        )
    return tuple(sentences)


def _cost_sentence(best: Method, other: Method, key: str) -> tuple[str, ...]:
    one, two = best.estimate("accuracy"), other.estimate("accuracy")
    if key == "accuracy" or one is None or two is None or not clearly_above(two, one):
        return ()
    return (
        f"It costs overall accuracy: {percent(one.value)} for {best.label}, {percent(two.value)} "
        f"for {other.label}.",
    )


def _others_sentence(
    ranked: Sequence[Method], best: Method, other: Method, key: str
) -> tuple[str, ...]:
    others = [method for method in ranked if method is not best and method is not other]
    if not others:
        return ()
    near = [m for m in others if not clearly_above(_estimate(best, key), _estimate(m, key))]
    listed = join_names([f"{method.label} {percent(_value(method, key))}" for method in others])
    close = near and f" No clear difference to {best.label}: {join_names([m.label for m in near])}."
    return (f"Right {JUDGED_BY[key]}, the others: {listed}.{close or ''}",)


def _clean_sentence(best: Method, reliance: Reliance) -> str:
    sentence = f"Nothing measured here points to a shortcut in {best.label} any more"
    if not reliance.gap:
        return f"{sentence}."
    return (
        f"{sentence}, yet its worst group is {points(reliance.gap)} below the average: that group "
        "may be hard for another reason."
    )


def _estimate(method: Method, key: str) -> Estimate:
    return method.estimate(key) or Estimate(0.0)


def _value(method: Method, key: str) -> float:
    return _estimate(method, key).value

"""The verdict on a section: fixed rules turn numbers into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rightreasons.report.caution import advise, list_cautions
from rightreasons.report.estimate import Estimate, clearly_above
from rightreasons.report.reliance import Reliance, find_reliance
from rightreasons.report.section import Method, Section
from rightreasons.report.wording import join_names, percent, plain_text, points
from rightreasons.run.config import AS_IT_IS

__all__ = ["Verdict", "judge_section"]

Tone = Literal["good", "mixed", "bad", "unclear"]

JUDGED_BY = {
    "group_accuracy/worst": "in the worst group",
    "swap_accuracy": "after what the mask covers was exchanged",
    "accuracy": "over all test samples",
}
SAME_GAP = 0.01
BLIND = "The data have neither masks nor groups, so nothing measured here can see a shortcut."


@dataclass(frozen=True)
class Verdict:
    """The answer to "right for the right reasons?", as far as the numbers go.

    Args:
        tone: Decides the colour, and the exit code of ``report --check``.
        badge: Two or three words.
        headline: One sentence.
        sentences: The evidence.
        cautions: The limits of the comparison.
        compared: The compared methods, the reference first.
        next_steps: What to try next.
    """

    tone: Tone
    badge: str
    headline: str
    sentences: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    compared: tuple[Method, ...] = ()
    next_steps: tuple[str, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """The verdict in plain values, for programs."""
        methods = {method.label: find_reliance(method) for method in self.compared}
        return {
            "tone": self.tone,
            "badge": self.badge,
            "headline": plain_text(self.headline),
            "evidence": [plain_text(sentence) for sentence in self.sentences],
            "cautions": [plain_text(caution) for caution in self.cautions],
            "next": [plain_text(step) for step in self.next_steps],
            "methods": {
                label: {
                    "signs": [plain_text(sign) for sign in reliance.signs],
                    "doubts": list(reliance.doubts),
                    "probes": list(reliance.probes),
                    "before_swap": reliance.before,
                    "after_swap": reliance.after,
                }
                for label, reliance in methods.items()
            },
        }


def judge_section(section: Section) -> Verdict:
    """Judge the methods tried on one data set.

    Methods that did not learn are left out. The others are compared by the accuracy in the worst
    group; if not all have it, by the accuracy after a swap; else by the accuracy. One is better
    than another only if their intervals do not overlap.

    A verdict is good only if two probes looked for a shortcut and found none. It is bad if no
    method is better than guessing where it is judged, or all show signs and none is better.
    """
    learned = [method for method in section.methods if method.learned]
    key = next((k for k in JUDGED_BY if all(m.estimate(k) for m in learned)), None)
    ranked = sorted(learned, key=lambda method: -_value(method, key)) if key else learned
    verdict = _judge(section, ranked, key)
    steps = advise(section, ranked, solved=verdict.tone == "good")
    disagreements = [find_reliance(method).disagreement for method in verdict.compared]
    cautions = (*filter(None, disagreements), *list_cautions(section))
    return replace(verdict, cautions=cautions, next_steps=steps)


def _judge(section: Section, ranked: Sequence[Method], key: str | None) -> Verdict:
    if not ranked:
        names = join_names([method.label for method in section.methods])
        given = all(method.recipe == AS_IT_IS for method in section.methods)
        start = "The model as it was given fails" if given else f"The training of {names} failed"
        headline = f"{start}: no better than always the most frequent class."
        return Verdict("bad", "Not learned", headline)
    if key is None:
        headline = "The runs share no measure of accuracy on test data, so nothing can be said."
        return Verdict("unclear", "Cannot tell", headline)
    return _judge_one(ranked[0], key) if len(ranked) == 1 else _judge_several(ranked, key)


def _judge_one(method: Method, key: str) -> Verdict:
    label, reliance = method.label, find_reliance(method)
    right = f"{percent(_value(method, key))} right {JUDGED_BY[key]}"
    sentences = (*_spread_sentence([method]), *_reliance_sentences([method]))
    if not reliance.is_known:
        headline = f"{label} is {right}; whether for the right reasons, these data cannot tell."
        return Verdict("unclear", "Cannot tell", headline, (*sentences, BLIND), (), (method,))
    if reliance.signs:
        headline = f"{label} is {right}, and there are signs that it takes the shortcut."
        sentences = (f"The signs: {join_names(reliance.signs)}.", *sentences)
        return Verdict("bad", "Signs of a shortcut", headline, sentences, (), (method,))
    if _guesses(method, key):
        headline = f"{label} is {right}, no better than guessing."
        return Verdict("bad", "Fails", headline, sentences, (), (method,))
    if reliance.is_clean:
        headline = f"{label} is {right}, and nothing measured here points to a shortcut."
        return Verdict("good", "No sign of a shortcut", headline, sentences, (), (method,))
    badge, reservation = _reserve(method, reliance)
    headline = f"{label} is {right}, but that is no all-clear."
    return Verdict("mixed", badge, headline, (reservation, *sentences), (), (method,))


def _judge_several(ranked: Sequence[Method], key: str) -> Verdict:
    best, where = ranked[0], JUDGED_BY[key]
    baseline = next((method for method in ranked if method.is_baseline), None)
    other = ranked[1] if baseline is None or baseline is best else baseline
    figures = f"{percent(_value(best, key))} right {where}, against {percent(_value(other, key))}"
    pair = (other, best)
    sentences = (
        *_spread_sentence(pair),
        *_reliance_sentences(pair),
        *_cost_sentence(best, other, key),
        *_others_sentence(ranked, best, other, key),
    )
    if _guesses(best, key):
        headline = f"Every method fails: the best, {best.label}, is {figures}."
        failure = ("No method is better than guessing there.", *_signs_sentence(best))
        return Verdict("bad", "Every method fails", headline, (*failure, *sentences), (), pair)
    one, two = _estimate(best, key), _estimate(other, key)
    if not clearly_above(one, two):
        why = (
            "The intervals overlap"
            if one.has_interval and two.has_interval
            else "There is no interval to judge it by"
        )
        headline = f"No clear difference between {best.label} and {other.label}: {figures}."
        sentences = (f"{why}, so the difference may be chance.", *sentences)
        if all(find_reliance(method).signs for method in ranked):
            sentences = ("Every method shows signs.", *_signs_sentence(best), *sentences)
            return Verdict("bad", "Every method fails", headline, sentences, (), pair)
        return Verdict("unclear", "No clear difference", headline, sentences, (), pair)
    headline = f"{best.label} is clearly better than {other.label}: {figures}."
    reliance = find_reliance(best)
    if best.is_baseline:
        return Verdict("bad", "No improvement", headline, sentences, (), pair)
    if not reliance.is_known:
        return Verdict("mixed", "More accurate", headline, (*sentences, BLIND), (), pair)
    if reliance.signs:
        sentences = (*sentences, *_signs_sentence(best))
        return Verdict("mixed", "Better, not solved", headline, sentences, (), pair)
    if not reliance.is_clean:
        badge, reservation = _reserve(best, reliance)
        return Verdict(
            "mixed", f"Better; {badge.lower()}", headline, (*sentences, reservation), (), pair
        )
    badge = "Clearly better" if baseline is None else "Clear improvement"
    clean = f"Nothing measured here points to a shortcut in {best.label} any more."
    return Verdict("good", badge, headline, (*sentences, clean), (), pair)


def _signs_sentence(method: Method) -> tuple[str, ...]:
    signs = find_reliance(method).signs
    what = f"{method.label} still shows signs of the shortcut"
    return (f"{what}: {join_names(signs)}.",) if signs else ()


def _guesses(method: Method, key: str) -> bool:
    """Whether the method is right less often than guessing would be."""
    classes = method.first.card.classes
    return len(classes) > 1 and _value(method, key) < 1 / len(classes)


def _reserve(method: Method, reliance: Reliance) -> tuple[str, str]:
    """Why there is no all-clear without any sign: a badge and a sentence."""
    if reliance.doubts:
        return "Check first", f"The training of {method.label} left a doubt: {reliance.doubts[0]}."
    if reliance.gap:
        return "A gap remains", (
            f"Nothing points to a shortcut under the masks of {method.label}, yet its worst group "
            f"is {points(reliance.gap)} below the average: that group may be hard for another "
            "reason, or a shortcut lies outside the masks."
        )
    (probe,) = reliance.probes
    return "One probe only", (
        f"Only one probe looked for a shortcut in {method.label}: {probe}. One probe can be blind "
        "to it."
    )


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


def _estimate(method: Method, key: str) -> Estimate:
    return method.estimate(key) or Estimate(0.0)


def _value(method: Method, key: str) -> float:
    return _estimate(method, key).value

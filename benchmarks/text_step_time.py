"""Measure the time of a training step on texts, as ratios to a step of cross-entropy by hand.

Each round times every kind of step once, in turn. The figures are medians over rounds of the ratio
within a round, of processor time: other work on the machine takes no part.

    OMP_NUM_THREADS=1 python benchmarks/text_step_time.py --part usual [--rounds 5] [--out FILE]

Parts are "usual", "drawn" (terms that differentiate or try many texts) and "all words" (Adv-R4
with every substitute in one place). Each has a step by hand of its own. ``--out`` keeps the other
parts of the file, and with ``--steps`` the other steps too. MiniLM comes from the extra `minilm`;
`--small` takes a tiny LSTM.
"""

import json
import time

import torch
from torch import nn, optim
from torch.nn import functional

import rightreasons as rr
import timing
from rightreasons.datasets.dataset import TextCard

VOCABULARY, SUBSTITUTES = 30522, 145


def by_hand(model: nn.Module, batch: rr.Batch) -> timing.Step:
    """A step of cross-entropy without this library."""
    optimizer = optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        loss = functional.cross_entropy(model(batch.x, **batch.inputs), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def by_recipe(objective: rr.Objective, model: nn.Module, data: rr.datasets.InMemory) -> timing.Step:
    """A step of an objective."""
    objective.prepare(data, num_passes=100)
    optimizer = optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        loss = objective(model, data.batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def random_texts(size: int, tokens: int) -> rr.datasets.InMemory:
    """Random texts with three masked tokens each."""
    mask = torch.zeros(size, tokens)
    mask[:, 1:4] = 1
    batch = rr.Batch(
        x=torch.randint(1000, VOCABULARY, (size, tokens)),
        y=torch.randint(2, (size,)),
        mask=mask,
        index=torch.arange(size),
        inputs={"attention_mask": torch.ones(size, tokens, dtype=torch.long)},
    )
    text = TextCard(
        VOCABULARY, mask_token=103, special=(0, 100, 101, 102, 103),
        substitutes=tuple(range(2000, 2000 + SUBSTITUTES)),
    )  # fmt: skip
    return rr.datasets.InMemory(batch, rr.datasets.Card(text=text))


def make_model(small: bool) -> nn.Module:
    torch.manual_seed(0)
    if small:
        return rr.models.text_lstm(vocabulary=VOCABULARY, classes=2)
    return rr.models.transformer(vocabulary=VOCABULARY, classes=2)


def ratios_of(
    recipes: dict[str, rr.Objective],
    data: rr.datasets.InMemory,
    rounds: int,
    *,
    small: bool,
    warm_up: int,
) -> dict[str, float]:
    """The processor time of each recipe's step, relative to a step by hand."""
    steps = {"by hand": by_hand(make_model(small), data.batch)}
    for name, objective in recipes.items():
        steps[name] = by_recipe(objective, make_model(small), data)
    seconds = timing.seconds_of(steps, rounds, warm_up=warm_up, clock=time.process_time)
    return {name: round(timing.ratio(seconds, name, "by hand"), 2) for name in recipes}


def recipes_of(part: str) -> dict[str, rr.Objective]:
    """The recipes of a part of the figures."""
    if part == "usual":
        return {
            "cross-entropy": rr.recipes.erm(),
            "counterexamples": rr.recipes.counterexamples(),
            "R3": rr.recipes.r3(weight=10.0),
            "Rand-R4, 3 draws": rr.recipes.token_rand_r4(weight=10.0),
        }
    if part == "drawn":
        return {
            "Smooth-R3, 3 draws": rr.recipes.token_smooth_r3(weight=10.0),
            "Adv-R4, 8 words in 3 places": rr.recipes.token_adv_r4(weight=10.0),
        }
    every = rr.recipes.token_adv_r4(weight=10.0, num_candidates=None, num_places=1)
    return {f"Adv-R4, {SUBSTITUTES} words in 1 place": every}


def main() -> None:
    parser = timing.step_parser(__doc__, rounds=5)
    parser.add_argument("--part", choices=("usual", "drawn", "all words"), required=True)
    parser.add_argument("--steps", nargs="+", help="names of the steps; all of the part by default")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that do not count")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    data = random_texts(chosen.batch, chosen.tokens)
    recipes, settings = recipes_of(chosen.part), {"small": chosen.small, "warm_up": chosen.warm_up}
    if chosen.steps:
        recipes = {name: recipes[name] for name in chosen.steps}
    ratios = ratios_of(recipes, data, chosen.rounds, **settings)
    sizes = {"batch": chosen.batch, "tokens": chosen.tokens, "rounds": chosen.rounds}
    kept = {}
    if chosen.out is not None and chosen.out.exists():
        kept = json.loads(chosen.out.read_text())
    if chosen.steps:
        ratios = {**kept.get(chosen.part, {}).get("ratios", {}), **ratios}
    figures = {**timing.machine(), **sizes, "ratios": ratios}
    timing.publish({**kept, chosen.part: figures}, chosen.out)


if __name__ == "__main__":
    main()

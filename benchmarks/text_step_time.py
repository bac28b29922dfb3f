"""Measure the time of a training step on texts, as ratios to cross-entropy in one run.

Each round times every kind of step once, in turn, so that a busy machine slows all of them. The
figures are medians over rounds of the ratio within a round.

    OMP_NUM_THREADS=1 python benchmarks/text_step_time.py [--rounds 5] [--batch 32] [--tokens 128]

MiniLM comes from the extra `minilm`; `--small` takes a tiny encoder with random weights.
"""

import argparse
import json

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--adversary", action="store_true", help="Adv-R4 with all candidates, too")
    chosen = parser.parse_args()
    data = random_texts(chosen.batch, chosen.tokens)
    recipes = {
        "cross-entropy": rr.recipes.erm(),
        "R3": rr.recipes.r3(weight=10.0),
        "Rand-R4 (3)": rr.recipes.token_rand_r4(weight=10.0),
        "Adv-R4 (8 of 145, 3 places)": rr.recipes.token_adv_r4(weight=10.0),
        "counterexamples": rr.recipes.counterexamples(),
    }
    if chosen.adversary:
        every = {"num_candidates": None, "num_places": None}
        recipes["Adv-R4 (145, 3 places)"] = rr.recipes.token_adv_r4(weight=10.0, **every)
    steps = {"by hand": by_hand(make_model(chosen.small), data.batch)}
    for name, objective in recipes.items():
        steps[name] = by_recipe(objective, make_model(chosen.small), data)
    seconds = timing.seconds_of(steps, chosen.rounds, warm_up=1)
    ratios = {name: round(timing.ratio(seconds, name, "by hand"), 2) for name in steps}
    print(json.dumps({"batch": chosen.batch, "tokens": chosen.tokens, "ratios": ratios}, indent=2))


if __name__ == "__main__":
    main()

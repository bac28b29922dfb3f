"""Guide nets by rationales: everything outside of what people marked is masked, softly.

    OMP_NUM_THREADS=1 python benchmarks/rationales.py --data-dir DIR [--model text_cnn]

HateXplain: posts that are normal or toxic. People marked the words for which a post is toxic; all
other words of these posts are masked. Normal posts have no rationale and no mask. As a contrast,
words for groups of people are masked in all posts. Where there are several settings, validation
data choose: the largest token F1 among those whose accuracy is at most a point below the best. The
chosen net is tested once. Rows go to benchmarks/results/rationales.json.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import rightreasons as rr
from rightreasons.datasets.dataset import Dataset, InMemory
from rightreasons.datasets.wrappers import select

ROWS = Path(__file__).parent / "results" / "rationales.json"
STRENGTH, TOLERANCE = 0.5, 0.01
ATTRIBUTIONS = ("gradient", "input_times_gradient")
BEST = "f1_input_times_gradient"
TRAINING: dict[str, dict[str, Any]] = {
    "text_cnn": {"epochs": 3, "lr": 3e-3},
    "transformer": {"epochs": 2, "lr": 5e-5, "optimizer": "adamw", "batch_size": 16},
}
PENALTIES: list[dict[str, Any]] = [
    {"weight": 10.0, "target": "loss"},
    {"weight": 10.0, "target": "margin"},
    {"weight": "auto", "target": "margin"},
]
COPIES = [{"source": source, "originals": True} for source in ("auto", "mask")]
CANDIDATES: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("none", "erm"): [{}],
    ("rationale", "r3"): PENALTIES,
    ("rationale", "counterexamples"): COPIES,
    ("identity", "counterexamples"): [{"source": "words"}],
}
FEW = {("rationale", "r3"): PENALTIES[-1:], ("rationale", "counterexamples"): COPIES[:1]}
"""Candidates of a net that takes minutes to train."""


@dataclass
class Posts:
    """Posts with two kinds of masks: outside of rationales, and on words for groups of people."""

    train: dict[str, Dataset]
    val: dict[str, Dataset]
    test: dict[str, Dataset]

    @classmethod
    def load(cls, data_dir: str, model: str, subset: int | None, seed: int) -> "Posts":
        """Read the posts; both kinds of masks stand on the same tokens."""
        settings = {
            "data_dir": data_dir, "tokenizer": "words" if model == "text_cnn" else "minilm"
        }  # fmt: skip
        identity = rr.datasets.load("hatexplain", mask="identity", **settings)
        outside = rr.datasets.load("hatexplain", mask="rationale", strength=STRENGTH, **settings)
        rows = torch.randperm(len(identity.train), generator=torch.manual_seed(seed))[:subset]
        parts = []
        for name in ("train", "val", "test"):
            words, marked = getattr(identity, name), getattr(outside, name).batch
            card = replace(words.card, text=replace(words.card.text, substitutes=()))
            # The words of a post are at the same places, whichever tokens the vocabulary has.
            rationale = words.batch.with_(mask=marked.mask, annotated=marked.annotated)
            both: dict[str, Dataset] = {"identity": words, "rationale": InMemory(rationale, card)}
            if name == "train":
                both = {kind: select(one, rows) for kind, one in both.items()}
            parts.append({**both, "none": both["identity"]})
        return cls(*parts)


def train(name: str, settings: dict[str, Any], data: Dataset, model: str, seed: int) -> Any:
    """Train a net from weights that depend on the seed alone."""
    torch.manual_seed(seed)
    vocabulary = data.card.text.vocabulary
    net = getattr(rr.models, model)(vocabulary=vocabulary, classes=2)
    rr.fit(net, getattr(rr.recipes, name)(**settings), data, seed=seed, **TRAINING[model])
    return net


def measure(net: Any, data: dict[str, Dataset]) -> dict[str, float]:
    """Accuracy, token F1 of two attributions, and what words for groups of people do."""
    outside, words = data["rationale"], data["identity"]
    row = {"accuracy": rr.evaluate(net, outside, ["accuracy"])["accuracy"]}
    for attribution in ATTRIBUTIONS:
        metric = rr.metrics.TokenAgreement(attribution=attribution)
        found = rr.evaluate(net, outside, [metric])
        row[f"f1_{attribution}"] = found["token_agreement"]
        row["f1_chance"] = found["token_agreement/chance"]
    everything = words.take(torch.arange(len(words)))
    normal, has_word = everything.y == 0, (everything.mask != 0).any(dim=1)
    for name, chosen in (("with", normal & has_word), ("without", normal & ~has_word)):
        part = select(words, chosen.nonzero().flatten())
        right = rr.evaluate(net, part, ["accuracy"])
        row[f"false_positives_{name}"] = 1 - right["accuracy"]
        row[f"normal_{name}"] = len(part)
    part = select(words, has_word.nonzero().flatten())
    changed = rr.evaluate(net, part, ["substitution_sensitivity"])
    row["flipped"] = changed["substitution_sensitivity"]
    return row


def choose(kind: str, name: str, data: Posts, model: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """The net of the best setting by validation data, and what all settings had there."""
    candidates = (CANDIDATES if model == "text_cnn" else {**CANDIDATES, **FEW})[kind, name]
    tried = []
    for settings in candidates:
        net = train(name, settings, data.train[kind], model, seed)
        found = measure(net, data.val) if len(candidates) > 1 else {"accuracy": 0.0, BEST: 0.0}
        tried.append((net, {"settings": settings, **found}))
    best = max(row["accuracy"] for _, row in tried)
    fair = [one for one in tried if one[1]["accuracy"] >= best - TOLERANCE]
    net, row = max(fair, key=lambda one: one[1][BEST])
    return net, {
        "chosen": row["settings"],
        "validation": [one for _, one in tried] if len(tried) > 1 else [],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--model", choices=sorted(TRAINING), default="text_cnn")
    parser.add_argument("--subset", type=int, help="training posts; all by default")
    parser.add_argument("--seed", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipe", nargs="+", default=["erm", "r3", "counterexamples"])
    chosen = parser.parse_args()
    for seed in chosen.seed:
        data = Posts.load(chosen.data_dir, chosen.model, chosen.subset, seed)
        for kind, name in CANDIDATES:
            if name not in chosen.recipe:
                continue
            began = time.process_time()
            net, how = choose(kind, name, data, chosen.model, seed)
            key = {"model": chosen.model, "seed": seed, "masked": kind, "recipe": name}
            row = {**key, "posts": len(data.train[kind]), "strength": STRENGTH}
            row |= {**TRAINING[chosen.model], **measure(net, data.test), **how}
            row["processor_seconds"] = round(time.process_time() - began, 1)
            print(json.dumps(row), flush=True)
            rows = json.loads(ROWS.read_text()) if ROWS.exists() else []
            others = [one for one in rows if any(one[part] != key[part] for part in key)]
            ROWS.write_text(json.dumps([*others, row], indent=1) + "\n")


if __name__ == "__main__":
    main()

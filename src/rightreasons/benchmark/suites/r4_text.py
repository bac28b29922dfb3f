"""R4's text column: Decoy IMDB with a small language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Grid, Method, Suite, Variant, make_grid, make_suite
from rightreasons.benchmark.suites import r4

__all__ = ["r4_text"]

RATES: Grid = [{"lr": rate} for rate in (1e-4, 2e-4)]
WEIGHTS = ("controlled", 1000.0)


def _papers(
    lr: float, batch_size: int, positive: float, *, decay: float = 0.0, **settings: Any
) -> Grid:
    penalty = {"weight": "controlled", "class_weights": [positive, 1.0], **settings}
    return [{"lr": lr, "batch_size": batch_size, "weight_decay": decay, "settings": penalty}]


_PAPERS_ERM: Grid = [{"lr": 1e-4, "epochs": 2, "batch_size": 60}]
PAPERS_GRID: Mapping[str, Grid] = {
    "R3": _papers(1.1e-6, 80, 1.3, decay=1e-5),
    "Smooth-R3": _papers(1.2e-6, 88, 1.3, num_samples=3, share=0.25),
    "Rand-R4": _papers(2e-6, 88, 1.35, num_samples=3, share=0.25),
    "Adv-R4": _papers(2e-6, 80, 1.35, decay=1e-5),
    **dict.fromkeys(("ERM", "counterexamples", "oracle"), _PAPERS_ERM),
}
"""What the public code does on Decoy IMDB, except for the weights of penalties."""
PROTOCOL = (
    "MiniLM of 6 layers and 22.7 million parameters, the mean of its states and a head with one "
    "hidden layer; the paper has BERT (base) and its pooled output.",
    "Reviews are cut to 64 tokens; the paper has 512. The random word of a test review stands "
    "among its first 32 words.",
    "Masked are the words of the review's own class, as in the public code; substitutes are the "
    "words of both lists.",
    "Penalties are squared norms of each review's masked gradient; the public code divides by the "
    "number of all elements, so that its weights are near 1e12.",
    "Rand-R4 differentiates the worst of its draws. Adv-R4 tries 4 words drawn from the list in "
    "each of the first 2 masked places; the paper tries all.",
    "The paper's test has a random word by its text and none by its numbers; both are measured.",
)


def r4_text() -> Suite:
    """R4 for texts and counterexamples on Decoy IMDB with MiniLM (R4's Table 1)."""
    counterexamples = {"recipe": "counterexamples"}
    oracle = {"recipe": "erm", "data_settings": {"oracle": True}}
    weights = make_grid(weight=WEIGHTS)
    adversary = [
        {"settings": {"weight": weight, "num_candidates": 4, "num_places": 2}} for weight in WEIGHTS
    ]
    plain = "without_words"
    return make_suite(
        r4.PAPER,
        "r4-text",
        "Decoy IMDB, MiniLM",
        "Table 1",
        base={
            "data": "decoy_imdb",
            "data_settings": {"tokenizer": "minilm", "max_length": 64},
            "model": "transformer",
            "optimizer": "adamw",
            "scheduler": "cosine",
            "lr": 1e-4,
            "metrics": ["accuracy", "group_accuracy"],
            "validation_metrics": ["accuracy", "swap_accuracy"],
            "metric_settings": {"swap_accuracy": {"num_draws": 2}},
        },
        variants=(Variant(name="imdb", title="Decoy IMDB", overrides={}),),
        methods=(
            Method(name="ERM", overrides={"recipe": "erm"}, grid=RATES),
            Method(name="R3", overrides={"recipe": "r3"}, grid=weights),
            Method(name="Smooth-R3", overrides={"recipe": "token_smooth_r3"}, grid=weights),
            Method(name="Rand-R4", overrides={"recipe": "token_rand_r4"}, grid=weights),
            Method(name="Adv-R4", overrides={"recipe": "token_adv_r4"}, grid=adversary),
            Method(name="counterexamples", overrides=counterexamples, grid=RATES),
            Method(name="oracle", overrides=oracle, grid=RATES),
        ),
        measures=(
            Measure(key="group_accuracy/average", name="average group", percent=True),
            Measure(key="group_accuracy/worst", name="worst group", percent=True),
            Measure(
                key="group_accuracy/average", name="average, no word", part=plain, percent=True
            ),
            Measure(key="group_accuracy/worst", name="worst, no word", part=plain, percent=True),
        ),
        select_by="swap_accuracy",
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                overrides={
                    "epochs": 1,
                    "batch_size": 8,
                    "precision": "bf16-mixed",
                    "data_settings": {"subset": 1300, "validation": 300, "test_subset": 800},
                },
                protocol=(
                    "1,000 training, 300 validation and 800 test reviews, 1 epoch of batches of "
                    "8; the paper has 25,000 reviews, 1 epoch of batches of 80 to 88, 2 restarts.",
                    "Training computes products in bfloat16, which halves the time of penalties.",
                ),
            ),
            "paper": Budget(
                seeds=(0, 1, 2),
                overrides={
                    "epochs": 1,
                    "batch_size": 80,
                    "optimizer": "adam",
                    "scheduler": "constant",
                    "data_settings": {"max_length": 512, "validation": 2000},
                },
                grids={"imdb": PAPERS_GRID},
                protocol=(
                    "512 tokens, with the rates, epochs, batches, decay, draws "
                    "and class weights of the public code. Its weights are near 1e12, on a "
                    "norm of the whole batch that is divided by all elements; here weights are "
                    "controlled. BERT (base) is not at hand, so the net is MiniLM. "
                    "Counterexamples and the oracle are ours, with ERM's settings. 2,000 training "
                    "reviews are held out.",
                ),
            ),
        },
        protocol=PROTOCOL,
    )

"""R4's text column: Decoy IMDB with a small language model."""

from __future__ import annotations

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Grid, Method, Suite, Variant, make_grid, make_suite
from rightreasons.benchmark.suites import r4

__all__ = ["r4_text"]

RATES: Grid = [{"lr": rate} for rate in (1e-4, 2e-4)]
WEIGHTS = ("controlled", 1000.0)
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
                    "data_settings": {"max_length": 512, "validation": 2000},
                },
                protocol=("All reviews, 512 tokens; 2,000 training reviews choose settings.",),
            ),
        },
        protocol=PROTOCOL,
    )

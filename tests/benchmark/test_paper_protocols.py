"""With the budget ``paper`` a suite has the papers' settings, and its runs start."""

from dataclasses import replace

import pytest
import torch

from rightreasons.benchmark import SUITES
from rightreasons.benchmark.plan import list_lines
from rightreasons.benchmark.registry import find_suite
from rightreasons.datasets import Card, InMemory, Splits
from rightreasons.run.run import train_run
from rightreasons.training.fit import fit
from rightreasons.types import Batch

PIXELS, SKIN = 784, 3 * 64 * 64
MNIST_BATCH = 1000**1.5 * 16  # a norm of the batch's mean gradient, divided by all masked values
SKIN_BATCH = 256**1.5 * 16 * 16 * 3
R4 = {"optimizer": "adam", "scheduler": "constant"}
MNIST = {**R4, "batch_size": 1000, "model_settings": {"hidden": [512]}}
DERM = {**R4, "batch_size": 256, "data_settings": {"size": 64}, "model_settings": {"width": 1.0}}
REFF = {
    "model": "resnet50",
    "weights": "resnet50-0676ba61.pth",
    "optimizer": "sgd",
    "lr": 0.01,
    "momentum": 0.8,
    "weight_decay": 1e-5,
    "batch_size": 32,
    "epochs": 50,
    "scheduler": "constant",
}
FOUR = {"layers": ["layer1", "layer2", "layer3", "layer4"], "layer_weights": [15, 60, 250, 1000]}
SQUARES = {
    "model": "small_cnn",
    "optimizer": "sgd",
    "momentum": 0.9,
    "lr": 0.01,
    "batch_size": 128,
    "epochs": 100,
    "scheduler": "step",
    "step_epochs": 25,
    "step_factor": 0.5,
    "settings": {"weight_decay": 5e-5},  # half of SGD's decay, as a weight of squares
}
RESNET32 = {
    "optimizer": "sgd",
    "momentum": 0.9,
    "lr": 0.1,
    "batch_size": 128,
    "epochs": 300,
    "scheduler": "step",
    "step_epochs": 25,
    "step_factor": 0.5,
    "settings": {"weight_decay": 5e-5},
}
LENET = {
    "model": "lenet",
    "model_settings": {"activation": "softplus"},
    "optimizer": "adam",
    "lr": 1e-3,
    "weight_decay": 4e-5,
    "epochs": 300,
    "batch_size": 128,
    "scheduler": "step",
    "milestones": "100,150",
    "step_factor": 0.1,
}
CELEBA = {
    "model": "resnet50",
    "weights": "resnet50-0676ba61.pth",
    "optimizer": "sgd",
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "lr": 1e-4,
    "batch_size": 512,
    "epochs": 20,
}
BLOCKS = {"model": "mlp2", "epochs": 80, "lr": 1e-4, "scheduler": "constant"}
TEXTS = {"epochs": 1, "scheduler": "constant", "data_settings": {"max_length": 512}}

PAPERS = {
    # R4, public code: experiment_results/decoy_mnist_params.yaml and derma_mnist_params.yaml
    ("r4-table1", "mnist-faint", "ERM"): {**MNIST, "lr": 0.01, "epochs": 30},
    ("r4-table1", "mnist-faint", "R3"): {
        **MNIST,
        "lr": 0.025,
        "epochs": 25,
        "settings": {"weight": 10 / PIXELS, "weight_decay": 1e-3},
    },
    ("r4-table1", "mnist-ross", "Smooth-R3"): {
        **MNIST,
        "lr": 0.001,
        "epochs": 15,
        "settings": {
            "weight": 10 / MNIST_BATCH,
            "epsilon": 0.1,
            "num_samples": 7,
            "weight_decay": 1e-3,
        },
    },
    ("r4-table1", "mnist-faint", "IBP-Ex"): {
        **MNIST,
        "lr": 0.075,
        "epochs": 30,
        "settings": {"weight": 4.0, "epsilon": 0.25, "weight_decay": 8e-4},
    },
    ("r4-table1", "mnist-faint", "IBP-Ex + R3"): {
        **MNIST,
        "lr": 0.01,
        "epochs": 30,
        "settings": {"weight": 2.1, "epsilon": 0.15, "weight_decay": 1.26e-3},
    },
    ("r4-table2", "mnist-faint", "Rand-R4"): {
        **MNIST,
        "lr": 0.001,
        "epochs": 30,
        "settings": {
            "weight": 15 / MNIST_BATCH,
            "epsilon": 0.5,
            "num_samples": 10,
            "weight_decay": 1.5e-3,
        },
    },
    ("r4-table1", "mnist-faint", "Adv-R4"): {
        **MNIST,
        "lr": 0.002,
        "epochs": 30,
        "settings": {"weight": 14.0, "norm": "l1", "num_steps": 10, "weight_decay": 1.4e-3},
    },
    ("r4-mask-fraction", "mnist masks 20 %", "Cert-R4"): {
        **MNIST,
        "lr": 0.001,
        "epochs": 25,
        "settings": {"weight": 15 / PIXELS, "epsilon": 0.5, "norm": "l1"},
    },
    # the paper, section 5.5: decay shrinks with the share of masks
    ("r4-mask-fraction", "mnist masks 20 %", "R3"): {
        **MNIST,
        "lr": 0.025,
        "epochs": 25,
        "settings": {"weight": 10 / PIXELS, "weight_decay": 2e-4},
    },
    ("r4-table1", "derm", "R3"): {
        **DERM,
        "lr": 2e-6,
        "epochs": 24,
        "weight_decay": 1e-8,
        "settings": {"weight": 1000 / 256, "class_weights": [1.3, 2.0272]},
    },
    ("r4-table1", "derm", "Rand-R4"): {
        **DERM,
        "lr": 1e-5,
        "epochs": 11,
        "weight_decay": 2e-5,
        "settings": {
            "weight": 2000 / SKIN_BATCH,
            "epsilon": 0.05,
            "num_samples": 8,
            "class_weights": [0.9, 2.0272],
        },
    },
    ("r4-table1", "derm", "Smooth-R3"): {
        **DERM,
        "lr": 1e-5,
        "epochs": 10,
        "weight_decay": 2e-5,
        "settings": {"weight": 1000 / SKIN_BATCH, "epsilon": 0.05, "num_samples": 9},
    },
    ("r4-table1", "derm", "IBP-Ex"): {
        **DERM,
        "lr": 1e-5,
        "epochs": 10,
        "weight_decay": 1e-5,
        "settings": {"weight": 0.005, "epsilon": 0.05, "class_weights": [1.5, 2.0272]},
    },
    ("r4-table2", "derm", "Adv-R4"): {
        **DERM,
        "lr": 1e-5,
        "epochs": 10,
        "weight_decay": 7e-5,
        "settings": {"weight": 10.0, "norm": "l1", "epsilon": 0.05, "num_steps": 10},
    },
    ("r4-table1", "derm", "ERM"): {**DERM, "lr": 1e-4, "epochs": 12},
    ("r4-model-size", "derm 4 convolutions", "Cert-R4"): {
        **DERM,
        "lr": 3e-4,
        "epochs": 30,
        "weight_decay": 2e-5,
        "settings": {"weight": 1 / SKIN, "epsilon": 0.05, "class_weights": [1.07, 2.0272]},
    },
    ("r4-table1", "derm", "IBP-Ex + R3"): {
        **DERM,
        "lr": 1e-5,
        "epochs": 11,
        "weight_decay": 3e-5,
        "settings": {
            "weight": 0.005,
            "epsilon": 0.05,
            "r3_weight": 0.005 / SKIN,
            "class_weights": [0.9, 2.0272],
        },
    },
    ("decoy-mnist", "faint", "R3"): {**MNIST, "lr": 0.025, "epochs": 25},
    # a decay from a thousandth to a hundred times the method's own, whatever the share of masks
    ("r4-weight-decay", "20 %, decay 0.01", "R3"): {
        **MNIST,
        "lr": 0.025,
        "epochs": 25,
        "settings": {"weight": 10 / PIXELS, "weight_decay": 0.01},
    },
    ("r4-weight-decay", "100 %, no decay", "Cert-R4"): {
        **MNIST,
        "lr": 0.001,
        "epochs": 25,
        "settings": {"weight": 15 / PIXELS, "epsilon": 0.5, "weight_decay": None},
    },
    # experiment_results/imdb_decoy_bert_params.yaml
    ("r4-text", "imdb", "ERM"): {**TEXTS, "lr": 1e-4, "epochs": 2, "batch_size": 60},
    ("r4-text", "imdb", "R3"): {
        **TEXTS,
        "lr": 1.1e-6,
        "batch_size": 80,
        "weight_decay": 1e-5,
        "settings": {"class_weights": [1.3, 1.0]},
    },
    ("r4-text", "imdb", "Smooth-R3"): {
        **TEXTS,
        "lr": 1.2e-6,
        "batch_size": 88,
        "settings": {"num_samples": 3, "share": 0.25, "class_weights": [1.3, 1.0]},
    },
    ("r4-text", "imdb", "Rand-R4"): {
        **TEXTS,
        "lr": 2e-6,
        "batch_size": 88,
        "settings": {"num_samples": 3, "share": 0.25, "class_weights": [1.35, 1.0]},
    },
    ("r4-text", "imdb", "Adv-R4"): {
        **TEXTS,
        "lr": 2e-6,
        "batch_size": 80,
        "weight_decay": 1e-5,
        "settings": {"class_weights": [1.35, 1.0]},
    },
    # ReFF, section 4.1 and supplement, Table 4 (a)
    ("reff-table3", "p = 0", "baseline"): {
        **REFF,
        "data_settings": {
            "size": 224,
            "digit_size": 223,
            "textures": "dtd",
            "background_classes": 37,
            "num_train": 54000,
            "num_validation": 6000,
            "num_test": 10000,
        },
    },
    ("reff-table3", "p = 0", "ReFF"): {**REFF, "settings": {"weight": 1.0, "ramp": 0.0, **FOUR}},
    ("reff-table2", "digit 16", "ReFF (single layer)"): {
        **REFF,
        "settings": {"weight": 1000.0, "layers": ["layer4"], "layer_weights": [1.0]},
        "data_settings": {"digit_size": 112},
    },
    ("reff-table3", "p = 0", "ReFF (L2)"): {**REFF, "settings": {"weight": 1e-6, **FOUR}},
    ("reff-table3", "p = 0", "ReFF (L1)"): {**REFF, "settings": {"weight": 1e-6, **FOUR}},
    # supplement, Table 4 (b); rate, batch and betas are those of the annotator's pix2pix
    ("reff-table3", "p = 0", "ReFF (L2, n = 10)"): {
        **REFF,
        "settings": {"weight": 1e-6, **FOUR},
        "strategy_settings": {
            "num_annotations": 10,
            "annotator": "pix2pix",
            "annotator_updates": 30_000,
        },
    },
    ("reff-table3", "p = 0", "ABN"): {
        "model_settings": {"backbone": "resnet50"},
        "settings": {"weight": 10.0, "reduction": "sum"},
    },
    # MaskTune, section 3
    ("masktune-figure2", "one square", "MaskTune"): SQUARES,
    ("masktune-table5", "two squares", "3 iterations"): {
        **SQUARES,
        "strategy_settings": {"k": 2.0, "iterations": 3, "accumulate": False},
    },
    ("masktune-figure2", "one square", "RandMask"): SQUARES,
    ("masktune-table4", "cifar10", "SR"): {**RESNET32, "model": "resnet32"},
    ("masktune-table4", "cifar10", "Deep Gamblers"): {
        **RESNET32,
        "model_settings": {"backbone": "resnet32"},
    },
    ("masktune-table4", "cifar10", "SelectiveNet"): {
        **RESNET32,
        "model_settings": {"backbone": "resnet32", "hidden": 512},
    },
    ("masktune-table4", "cifar10", "OSP"): {**RESNET32, "model": "resnet32"},
    ("masktune-table4", "cifar10", "MaskTune"): {**RESNET32, "model": "resnet32"},
    ("masktune-celeba", "resnet", "MaskTune"): {
        **CELEBA,
        "select": "accuracy",  # for the maps
        "strategy_settings": {"tune_lr": 1e-4},
    },
    ("masktune-celeba", "resnet", "ERM"): {**CELEBA, "select": "none"},
    ("masktune-celeba", "resnet", "DivDis"): {**CELEBA, "select": "none"},
    ("masktune-waterbirds", "resnet", "Group DRO"): {**CELEBA, "select": "worst_group"},
    # Alignment, section 5.1 and public code
    ("alignment-table1", "lenet", "CE only"): LENET,
    ("alignment-table1", "lenet", "l2 + cosine"): {
        **LENET,
        "settings": {"weight": 1.0, "l2_weight": pytest.approx(0.01 * 0.063)},
    },
    ("alignment-table1", "lenet", "l2"): {
        **LENET,
        "settings": {"weight": pytest.approx(0.01 * 0.063)},
    },
    ("alignment-table1", "lenet", "Hessian"): {
        **LENET,
        "settings": {"weight": pytest.approx(1e-3 * 0.063**2)},
    },
    ("alignment-table1", "lenet", "ATEX"): LENET,
    # Density, supplement 19.2
    ("density-table1", "block-mnist", "InputGrad"): BLOCKS,
    ("density-table1", "block-mnist", "ST"): BLOCKS,
    ("density-table1", "block-mnist", "Density (log-sum-exp)"): BLOCKS,
    # Chen et al. 2019
    ("density-table1", "block-mnist", "IG-SUM"): {
        **BLOCKS,
        "settings": {"num_steps": 7, "num_segments": 50},
    },
    ("density-table2", "celeba", "Vanilla"): {
        "model": "resnet34",
        "epochs": 50,
        "lr": 1e-4,
        "data_settings": {"balance": "groups"},
    },
    **{
        ("density-table2", "celeba", name): {"model": "resnet34", "epochs": 50, "lr": 1e-5}
        for name in ("InputGrad", "Score-Matching", "Density")
    },
    ("density-table2", "waterbirds", "Group DRO + Density"): {
        "model": "resnet34",
        "epochs": 300,
        "lr": 1e-5,
        "data_settings": {"balance": "groups"},
    },
}
OURS = ("defaults", "density-groups", "masktune-table1", "reff-decoy-ham", "reff-regimes")
"""Suites without a table of a paper that has the same data."""


@pytest.mark.parametrize("place", PAPERS, ids=" ".join)
def test_settings_are_the_papers(place):
    suite, variant, method = place
    (line,) = list_lines(find_suite(suite), "paper", variants=[variant], methods=[method])
    for cell in line.possible_cells():
        for name, expected in PAPERS[place].items():
            found = getattr(cell.config, name)
            if isinstance(expected, dict):
                found = {key: found.get(key) for key in expected}
            assert found == expected, name


def test_every_table_of_a_paper_is_compared():
    shown = {suite for suite, _, _ in PAPERS}
    # they have the cells, or the grids, of a table that is compared
    shown |= {"density-figure4", "density-unseen", "masktune-table6"}
    shown |= {"r4-corruption"}
    assert shown | set(OURS) == {name.replace("_", "-") for name in SUITES}


def miniature(config):
    """Eight small images of noise, with the classes, groups and masks that the data have."""
    size = 28 if config.model in ("mlp", "mlp2", "small_cnn", "derma_net") else 32
    generator = torch.Generator().manual_seed(0)
    shape = (8, 1 if config.data.endswith("mnist") and "biased" not in config.data else 3)
    y = torch.arange(8) % 2
    batch = Batch(
        x=torch.rand(*shape, size, size, generator=generator),
        y=y,
        mask=(torch.rand(8, 1, size, size, generator=generator) > 0.9).float(),
        group=torch.arange(8) % 4,
    )
    data = InMemory(batch, Card(name=config.data, valid_range=(0.0, 1.0)))
    return Splits(train=data, val=data, test=data)


def starts(*, with_strategy):
    """One run for each net, recipe and strategy of the papers' budgets."""
    found = {}
    for suite in map(find_suite, SUITES):
        if suite.name not in (*OURS, "r4-text"):  # texts have a test of their own
            for line in list_lines(suite, "paper"):
                config = line.cell(0, 0).config
                if (config.strategy != "once") == with_strategy:
                    place = (config.model, config.recipe, config.strategy)
                    name = f"{suite.name} {line.method.name}"
                    found.setdefault(place, pytest.param(config, id=name))
    return list(found.values())


def shorten(config, data):
    """The same run with one update of a slim net."""
    slim = {"width": 0.125} if config.model.startswith(("attention", "derma", "resnet")) else {}
    return replace(
        config,
        model_settings={**config.model_settings, **slim},
        settings={key: value for key, value in config.settings.items() if key != "class_weights"},
        weights=None,
        epochs=1,
        batch_size=len(data.train),
        step_epochs=None if config.step_epochs is None else 1,
        milestones=None if config.milestones is None else "1",
        select="none",
    )


@pytest.mark.parametrize("config", starts(with_strategy=True))
def test_every_strategy_trains(config, tmp_path):
    data = miniature(config)
    few = {"annotator_width": 4, "annotator_updates": 1, "num_annotations": 2}
    settings = {**config.strategy_settings, **(few if config.strategy == "reff" else {})}
    short = replace(
        shorten(config, data),
        strategy_settings=settings,
        metrics=["accuracy"],
        metric_settings={},
        validation_metrics=None,
    )
    found = train_run(short, tmp_path, data=data, progress=False)
    assert found["strategy"].replace("-", "_") == config.strategy
    assert 0 <= found["metrics"]["test"]["accuracy"] <= 1


@pytest.mark.parametrize("config", starts(with_strategy=False))
def test_every_run_trains_one_batch(config):
    data = miniature(config)
    config = shorten(config, data)
    model, _ = config.start_model(data)
    before = [weight.detach().clone() for weight in model.parameters()]
    fitted = fit(
        model, config.build_objective(), data.train, progress=False, **config.to_arguments()
    )
    assert fitted.history[-1]["updates"] == 1
    assert any(not torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))

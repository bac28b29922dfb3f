"""Tables about people, with columns that a decision must not depend on."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from rightreasons.core.checks import check_fraction
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.table import names_of
from rightreasons.datasets.splitting import stratified_split
from rightreasons.datasets.tables.reading import dataset
from rightreasons.datasets.texts.reading import read_rows
from rightreasons.errors import DatasetNotFoundError

__all__ = ["adult", "compas", "german_credit"]

ADULT = Card(
    name="adult",
    description="Census of 1994: does a person earn more than 50,000 dollars a year?",
    source="UCI, Kohavi 1996",
    licence="CC BY 4.0",
    shortcut="sex and its proxies",
)
COMPAS = Card(
    name="compas",
    description="People arrested in Broward County: were they arrested again within two years?",
    source="ProPublica 2016",
    licence="none stated",
    shortcut="race and sex",
)
GERMAN = Card(
    name="german_credit",
    description="Loans of a German bank: good or bad?",
    source="UCI, Hofmann 1994",
    licence="CC BY 4.0",
    shortcut="sex with marital status, and age",
)
SCORES = ("decile_score", "score_text", "v_decile_score", "v_score_text")
LATER = ("is_recid", "is_violent_recid")


def adult(
    data_dir: str | PathLike[str],
    *,
    masked: Sequence[str] | str = ("sex",),
    validation_share: float = 0.1,
    seed: int = 0,
) -> Splits:
    """Census rows: who earns more than 50,000 dollars? Sex is masked.

    The official split; part of the training rows are for validation. Groups are sex and income.

    Args:
        data_dir: Folder with ``adult.csv.gz`` or ``adult.csv``, with a header and a column
            ``split``.
        masked: Columns the model must not look at, such as ``"sex,relationship,marital_status"``,
            whose values tell the sex of many.
        validation_share: Fraction of the training rows for validation.
        seed: Random seed for the validation rows.

    References:
        kohavi1996scaling
    """
    rows = _hold_out(_rows(data_dir, "adult"), validation_share, seed)
    return dataset(
        rows,
        label="income",
        masked=names_of(masked),
        groups=["sex", "income"],
        drop=["fnlwgt", "education"],  # a sampling weight, and education_num in words
        missing="fill",
        seed=seed,
        card=ADULT,
    )


def compas(
    data_dir: str | PathLike[str],
    *,
    masked: Sequence[str] | str = ("race", "sex"),
    validation_share: float = 0.1,
    test_share: float = 0.3,
    seed: int = 0,
) -> Splits:
    """People arrested in Broward County: arrested again? Race and sex are masked.

    COMPAS's own scores, and what is known only later, are left out. Groups are race and label.

    Args:
        data_dir: Folder with ``compas_two_years.csv.gz`` or ``compas_two_years.csv``.
        masked: Columns the model must not look at.
        validation_share: Fraction for validation.
        test_share: Fraction for the test.
        seed: Random seed for the split.

    References:
        angwin2016machine
    """
    return dataset(
        _rows(data_dir, "compas_two_years"),
        label="two_year_recid",
        masked=names_of(masked),
        groups=["race", "two_year_recid"],
        drop=["id", "c_charge_desc", *SCORES, *LATER],
        missing="fill",
        validation_share=validation_share,
        test_share=test_share,
        seed=seed,
        card=COMPAS,
    )


def german_credit(
    data_dir: str | PathLike[str],
    *,
    masked: Sequence[str] | str = ("personal_status_sex",),
    validation_share: float = 0.1,
    test_share: float = 0.3,
    seed: int = 0,
) -> Splits:
    """Loans of a German bank, good or bad; sex and marital status are masked.

    Groups are the classes.

    Args:
        data_dir: Folder with ``german_credit.csv.gz`` or ``german_credit.csv``, with a header.
        masked: Columns the model must not look at.
        validation_share: Fraction for validation.
        test_share: Fraction for the test.
        seed: Random seed for the split.

    References:
        hofmann1994statlog
    """
    return dataset(
        _rows(data_dir, "german_credit"),
        label="bad_credit",
        masked=names_of(masked),
        groups=["bad_credit"],
        validation_share=validation_share,
        test_share=test_share,
        seed=seed,
        card=GERMAN,
    )


def _rows(data_dir: str | PathLike[str], name: str) -> list[dict[str, Any]]:
    root = Path(data_dir).expanduser()
    for path in (root / f"{name}.csv.gz", root / f"{name}.csv"):
        if path.is_file():
            return [dict(row) for row in read_rows(path)]
    raise DatasetNotFoundError(
        f"Expected {name}.csv.gz or {name}.csv in {root}, but there is none. Put the table there, "
        "with a header."
    )


def _hold_out(rows: list[dict[str, Any]], share: float, seed: int) -> list[dict[str, Any]]:
    check_fraction("validation_share", share, below_one=True)
    training = [row for row in rows if row["split"] == "train"]
    labels = torch.tensor([int(str(row["income"])) for row in training])
    stream = random_stream(seed, "adult", "validation")
    for n in stratified_split(labels, sizes=[round(share * len(labels))], stream=stream)[0]:
        training[int(n)]["split"] = "val"
    return rows

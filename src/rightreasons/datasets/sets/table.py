"""The user's own table: a folder with rows of numbers and categories."""

from collections.abc import Sequence
from os import PathLike

from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.tables.reading import Missing, dataset

__all__ = ["names_of", "table"]


def table(
    path: str | PathLike[str],
    *,
    label: str = "label",
    masked: Sequence[str] | str = (),
    groups: Sequence[str] | str = (),
    categorical: Sequence[str] | str = (),
    drop: Sequence[str] | str = (),
    missing: Missing = "refuse",
    validation_share: float = 0.1,
    test_share: float = 0.2,
    seed: int = 0,
) -> Splits:
    """Your own table: a folder with data.csv, and the columns not to look at.

    Args:
        path: The folder with ``data.csv``, ``data.parquet`` or ``data.jsonl``, or the file itself.
        label: Name of the column of labels.
        masked: Columns that the model must not look at, as a list or with commas.
        groups: Columns whose values together make the groups.
        categorical: Columns of numbers that are categories.
        drop: Columns to leave out.
        missing: What to do with empty cells: ``"refuse"``, ``"fill"`` or ``"drop"`` the row.
        validation_share: Fraction for validation, if there is no column ``split``.
        test_share: Fraction for the test, if there is no column ``split``.
        seed: Random seed for the splits.
    """
    return dataset(
        path,
        label=label,
        masked=names_of(masked),
        groups=names_of(groups),
        categorical=names_of(categorical),
        drop=names_of(drop),
        missing=missing,
        validation_share=validation_share,
        test_share=test_share,
        seed=seed,
    )


def names_of(columns: Sequence[str] | str) -> list[str]:
    """Names of columns that are a list or one word with commas.

    Example:
        >>> names_of("sex, race"), names_of(["sex"])
        (['sex', 'race'], ['sex'])
    """
    given = columns.split(",") if isinstance(columns, str) else columns
    return [str(name).strip() for name in given if str(name).strip()]

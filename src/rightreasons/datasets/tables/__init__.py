"""Reading tables of numbers and categories."""

from rightreasons.datasets.tables.reading import dataset as dataset

__all__ = ["dataset"]

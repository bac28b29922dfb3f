"""One data set = one file."""

__all__: list[str] = []

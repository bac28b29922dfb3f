"""Runs: one configuration, trained, measured and kept in a folder."""

__all__: list[str] = []

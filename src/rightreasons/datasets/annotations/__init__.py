"""Masks drawn in other tools: read exports, rasterise all in one way, write them back."""

__all__: list[str] = []

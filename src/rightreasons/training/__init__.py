"""Training and evaluation: one loop."""

__all__: list[str] = []

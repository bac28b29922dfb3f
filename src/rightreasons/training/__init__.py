"""Training and evaluation."""

__all__: list[str] = []

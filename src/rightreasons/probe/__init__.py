"""One differentiable pass of a model over a batch."""

__all__: list[str] = []

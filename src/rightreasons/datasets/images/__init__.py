"""Reading of images: files, manifests, memory, streams."""

__all__: list[str] = []

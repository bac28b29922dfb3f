"""Reading images: files, tables of files, data in memory and on disk."""

__all__: list[str] = []

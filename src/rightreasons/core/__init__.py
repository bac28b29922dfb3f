"""What every package uses: checks, files, random numbers, norms, second derivatives."""

__all__: list[str] = []

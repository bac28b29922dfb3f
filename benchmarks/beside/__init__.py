"""Parts of `benchmarks/beside_others.py`."""

"""The soundness campaign: random nets of every kind, and a search for values outside their bounds.

Run it with `make soundness`, or with ``python -m tests.soundness --help``.
"""

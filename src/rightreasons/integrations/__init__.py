"""What training loops of other libraries need; each gives the numbers of the plain loop."""

from rightreasons.integrations.huggingface import ObjectiveMixin as ObjectiveMixin

__all__ = ["ObjectiveMixin"]

"""The fingerprint of a model's weights."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["model_digest"]


def model_digest(state: Mapping[str, Tensor]) -> str:
    """A SHA-256 over the names, types, shapes and bytes of a model's state.

    Args:
        state: As ``model.state_dict()`` gives it, or as a weight file holds it.

    Example:
        >>> one, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        >>> model_digest(one.state_dict()) == model_digest(other.state_dict())
        False
    """
    sha = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()

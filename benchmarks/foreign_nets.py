"""Small nets of other libraries, built from configurations: nothing is downloaded.

Images have three channels and 32 pixels a side. `NETS` has a function for each net; transformers is
imported when the first of its nets is made.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import rightreasons as rr

SIZE = 32


def huggingface(kind: str, **settings: object) -> nn.Module:
    """A classifier of transformers with random weights."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(num_labels=2, **settings)
    return rr.models.huggingface(getattr(transformers, f"{kind}ForImageClassification")(config))


def transformer(kind: str, **settings: object) -> nn.Module:
    """A transformer of 16 tokens, one for each patch of 8 x 8 pixels, apart from others."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return huggingface(kind, **sizes, image_size=SIZE, patch_size=8, **settings)


def swin() -> nn.Module:
    sizes = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
    return huggingface("Swin", image_size=SIZE, patch_size=2, **sizes)


def convnext() -> nn.Module:
    sizes = {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}
    return huggingface("ConvNext", patch_size=2, **sizes)


def resnet() -> nn.Module:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 32], "depths": [1, 1, 1]}
    return huggingface("ResNet", layer_type="basic", **sizes)


def efficientnet() -> nn.Module:
    sizes = {"width_coefficient": 0.25, "depth_coefficient": 0.1, "hidden_dim": 320}
    return huggingface("EfficientNet", image_size=SIZE, **sizes)


class OwnViT(nn.Module):
    """A transformer as one writes it with PyTorch's layers, with a class token.

    Args:
        batch_first: Whether tokens are ``(N, T, C)`` inside, not ``(T, N, C)``.
    """

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embed = nn.Conv2d(3, 32, 8, 8)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 32))
        self.position = nn.Parameter(0.02 * torch.randn(1, 17, 32))
        block = nn.TransformerEncoderLayer(
            32, 2, 64, dropout=0.0, batch_first=batch_first, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Images -> logits."""
        patches = self.embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1) + self.position
        if not self.batch_first:
            return self.head(self.encoder(tokens.transpose(0, 1))[0])
        return self.head(self.encoder(tokens)[:, 0])


NETS: dict[str, Callable[[], nn.Module]] = {
    "ViT": lambda: transformer("ViT", intermediate_size=64),
    "DeiT": lambda: transformer("DeiT", intermediate_size=64),
    "Dinov2": lambda: transformer("Dinov2"),
    "Dinov2 with registers": lambda: transformer("Dinov2WithRegisters"),
    "Swin": swin,
    "ConvNeXt": convnext,
    "ResNet": resnet,
    "EfficientNet": efficientnet,
    "own ViT": OwnViT,
}

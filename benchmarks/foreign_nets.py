"""Small nets of other libraries, built from configurations: nothing is downloaded.

Images have three channels and 32 pixels a side, or as many as the functions in `NETS` are told.
`OTHER_NETS` has nets of other data. transformers is imported when the first of its nets is made.
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


def transformer(kind: str, size: int, **settings: object) -> nn.Module:
    """A transformer with a token for each patch of 8 x 8 pixels, apart from others."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return huggingface(kind, **sizes, image_size=size, patch_size=8, **settings)


def swin(size: int = SIZE) -> nn.Module:
    sizes = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
    return huggingface("Swin", image_size=size, patch_size=2, **sizes)


def convnext(size: int = SIZE) -> nn.Module:
    del size  # any will do
    sizes = {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}
    return huggingface("ConvNext", patch_size=2, **sizes)


def resnet(size: int = SIZE) -> nn.Module:
    del size  # any will do
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 32], "depths": [1, 1, 1]}
    return huggingface("ResNet", layer_type="basic", **sizes)


def efficientnet(size: int = SIZE) -> nn.Module:
    sizes = {"width_coefficient": 0.25, "depth_coefficient": 0.1, "hidden_dim": 320}
    # With weights as small as usual nothing is left of an image behind so few channels.
    return huggingface("EfficientNet", image_size=size, initializer_range=0.2, **sizes)


class OwnViT(nn.Module):
    """A transformer as one writes it with PyTorch's layers, with a class token.

    Args:
        size: Height and width of the images.
        batch_first: Whether tokens are ``(N, T, C)`` inside, not ``(T, N, C)``.
    """

    def __init__(self, size: int = SIZE, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embed = nn.Conv2d(3, 32, 8, 8)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 32))
        self.position = nn.Parameter(0.02 * torch.randn(1, 1 + (size // 8) ** 2, 32))
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


NETS: dict[str, Callable[..., nn.Module]] = {
    "ViT": lambda size=SIZE: transformer("ViT", size, intermediate_size=64),
    "DeiT": lambda size=SIZE: transformer("DeiT", size, intermediate_size=64),
    "Dinov2": lambda size=SIZE: transformer("Dinov2", size),
    "Dinov2 with registers": lambda size=SIZE: transformer("Dinov2WithRegisters", size),
    "Swin": swin,
    "ConvNeXt": convnext,
    "ResNet": resnet,
    "EfficientNet": efficientnet,
    "own ViT": OwnViT,
}


class LastState(nn.Module):
    """A recurrent net of two classes on embeddings ``(N, T, 8)``, or on token ids ``(N, T)``.

    Args:
        num_tokens: Number of tokens that are looked up; None takes the embeddings themselves.
    """

    def __init__(self, num_tokens: int | None = None) -> None:
        super().__init__()
        self.embed = nn.Identity() if num_tokens is None else nn.Embedding(num_tokens, 8)
        self.lstm = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings or token ids -> logits."""
        return self.head(self.lstm(self.embed(x))[0][:, -1])


def signal_cnn() -> nn.Module:
    """Three convolutions over signals ``(N, 2, 32)``."""
    convolutions = []
    for channels in (2, 16, 16):
        convolutions += [nn.Conv1d(channels, 16, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(16, 2))


def table_mlp() -> nn.Module:
    """Two hidden layers on 16 columns."""
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )


OTHER_NETS: dict[str, Callable[[], nn.Module]] = {
    "1-D CNN": signal_cnn,
    "LSTM on embeddings": LastState,
    "LSTM on token ids": lambda: LastState(num_tokens=20),
    "table MLP": table_mlp,
}

"""Layers of other libraries' nets: the right one by itself, and its places in the right order."""

from pathlib import Path

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import GradCAM, XGradCAM, last_spatial_layer, resolution_layers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LAYERS = {
    "ViT": ["net.vit.layers.1.layernorm_before"],
    "DeiT": ["net.deit.layers.1.layernorm_before"],
    "Dinov2": ["net.dinov2.layernorm"],
    "Dinov2 with registers": ["net.dinov2_with_registers.layernorm"],
    "Swin": ["net.swin.encoder.layers.0.blocks.0", "net.swin.layernorm"],
    "ConvNeXt": [f"net.convnext.encoder.stages.{number}" for number in range(4)],
    "ResNet": [
        "net.resnet.embedder.embedder",
        *(f"net.resnet.encoder.stages.{number}" for number in range(3)),
    ],
    "EfficientNet": [f"net.efficientnet.encoder.blocks.{number}" for number in (0, 1, 2, 4)],
    "own ViT": ["encoder.layers.1.norm1"],
}


@pytest.fixture
def nets(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import foreign_nets

    return foreign_nets


@pytest.fixture
def x():
    return torch.rand(3, 3, 32, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_the_last_layer_whose_places_count_is_found(name, nets, x):
    net = nets.NETS[name]().eval()
    assert resolution_layers(net, x) == LAYERS[name]
    for explainer in (GradCAM(), XGradCAM()):
        assert explainer(net, x, torch.tensor([0, 1, 0])).shape == (3, 1, 32, 32)


def test_a_table_that_looks_like_maps_is_not_taken(nets, x):
    """Swin's bias of relative positions is (1, heads, T, T), the same for all images."""
    net = nets.NETS["Swin"]().eval()
    layer = "net.swin.encoder.layers.1.blocks.0.attention.relative_position_bias"
    with pytest.raises(InvalidSettingError, match=f"{layer}' to give maps.*got \\(1, 2, 16, 16\\)"):
        GradCAM(layers=layer)(net, x)


def test_patches_that_are_not_mixed_yet_are_not_taken(nets, x):
    net = nets.NETS["ViT"]().eval()
    assert "embeddings" not in last_spatial_layer(net, x)
    late = "net.vit.layernorm"  # the head reads the class token alone there: no map
    assert not GradCAM(layers=late)(net, x).any()


@pytest.mark.parametrize("name", ["ViT", "DeiT", "Dinov2 with registers", "Swin", "own ViT"])
def test_tokens_are_put_where_their_patches_are(name, nets, x):
    net = nets.NETS[name]().eval()
    layer = last_spatial_layer(net, x)
    changed = x.clone()
    changed[:, :, 8:16, 24:] += 1.0
    probes = [
        rr.Probe(net, rr.Batch(x=one, y=torch.zeros(3).long()), layers=[layer])
        for one in (x, changed)
    ]
    maps = rr.explainers.spatial_layers.maps_of(net, x, dict(probes[0].activations), None)[layer]
    moved = (maps(probes[1].activations[layer]) - maps(probes[0].activations[layer])).abs()
    heat = nn.functional.interpolate(moved.sum(dim=1, keepdim=True), size=(4, 4), mode="area")
    assert heat.flatten(1).argmax(dim=1).tolist() == [7, 7, 7]  # second row, last column


def test_channels_may_come_last(nets, x):
    """ConvNeXt has layers that give (N, H, W, C), which look like (N, C, H, W)."""
    net = nets.NETS["ConvNeXt"]().eval()
    y = torch.tensor([0, 1, 1])
    layer = "net.convnext.encoder.stages.1.layers.0.pwconv2"
    first = rr.Probe(net, rr.Batch(x=x, y=y), needs_gradient=True, layers=[layer])
    output = first.activations[layer]
    (gradient,) = torch.autograd.grad(first.logits.gather(1, y[:, None]).sum(), output)
    heat = torch.einsum("nc,nhwc->nhw", gradient.mean(dim=(1, 2)), output).clamp(min=0)
    expected = nn.functional.interpolate(heat[:, None], size=(32, 32), mode="bilinear")
    torch.testing.assert_close(GradCAM(layers=layer)(net, x, y), expected)
    named = GradCAM(layers=layer, reshape="channels_last")(net, x, y)
    torch.testing.assert_close(named, expected)
    moved = GradCAM(layers=layer, reshape=lambda output: output.movedim(-1, 1))(net, x, y)
    torch.testing.assert_close(moved, expected)


def test_attention_weights_are_no_maps(x):
    class Attention(nn.Module):
        """The last output with several axes is (N, heads, T, T)."""

        def __init__(self):
            super().__init__()
            self.embed, self.drop, self.head = (
                nn.Conv2d(3, 8, 8, 8),
                nn.Softmax(-1),
                nn.Linear(8, 2),
            )

        def forward(self, x):
            tokens = self.embed(x).flatten(2).transpose(1, 2)
            weights = self.drop(tokens[:, None] @ tokens[:, None].transpose(2, 3))
            return self.head((weights[:, 0] @ tokens).mean(dim=1))

    with pytest.raises(InvalidSettingError, match=r"last one, 'drop', gives \(5, 1, 16, 16\)"):
        last_spatial_layer(Attention(), x)


def test_tokens_before_samples_are_refused_unless_told(nets, x):
    net = nets.OwnViT(batch_first=False).eval()
    with pytest.raises(InvalidSettingError, match=r"'encoder', gives \(17, 5, 32\).*`reshape`"):
        GradCAM()(net, x)
    twin = nets.OwnViT().eval()
    twin.load_state_dict(net.state_dict())

    def reshape(output):
        return output[1:].permute(1, 2, 0).unflatten(2, (4, 4))

    y = torch.tensor([0, 1, 0])
    named = GradCAM(layers="encoder.layers.1.norm1", reshape=reshape)(net, x, y)
    torch.testing.assert_close(named, GradCAM()(twin, x, y))


def test_a_wrong_reshape_is_refused(nets, x):
    net = nets.OwnViT().eval()
    layer = "encoder.layers.1.norm1"
    with pytest.raises(InvalidSettingError, match=r"`reshape` to make maps.*it made \(3, 17, 32\)"):
        GradCAM(layers=layer, reshape=lambda output: output)(net, x)
    with pytest.raises(InvalidSettingError, match=r"read as 'channels_last' for images of 32 x 32"):
        GradCAM(layers=layer, reshape="channels_last")(net, x)
    with pytest.raises(InvalidSettingError, match="`reshape` to be 'channels_first' or"):
        GradCAM(layers=layer, reshape="last")


def test_a_head_of_zeros_hides_nothing(nets, x):
    net = nets.OwnViT()
    nn.init.zeros_(net.head.weight)
    assert last_spatial_layer(net, x) == "encoder.layers.1.norm1"
    assert not net.head.weight.any()


def test_a_dead_layer_hides_none_before_it(x):
    net = nn.Sequential(
        *(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, 2, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(256, 2)),
    )
    alive = resolution_layers(net, x)
    dying = nn.Sequential(*net)
    with torch.no_grad():
        dying[2].bias.fill_(-100.0)
    assert resolution_layers(dying, x) == alive == ["1", "3"]


def test_layers_behind_dropout_are_read_before_it(x):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout(0.5), nn.Flatten(), nn.Linear(3600, 2))
    assert last_spatial_layer(net, x) == "0"


@pytest.mark.parametrize("name", ["ViT", "Swin", "ConvNeXt"])
def test_reff_reaches_the_weights_of_all_layers_before(name, nets, x):
    net = nets.NETS[name]()
    mask = torch.zeros(3, 1, 32, 32)
    mask[:, :, :16] = 1
    batch = rr.Batch(x=x, y=torch.tensor([0, 1, 0]), mask=mask)
    loss = rr.objectives.ReFF().as_objective()(net, batch)
    loss.backward()
    embedding = next(one for name, one in net.named_parameters() if "patch_embeddings" in name)
    assert torch.isfinite(loss.total) and embedding.grad.abs().sum() > 0

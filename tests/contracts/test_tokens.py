"""The contract of token models: terms, metrics and explainers at the embeddings."""

import copy

import pytest
import torch
from tests.contracts.test_terms import TERMS, value
from tests.reference import terms
from tests.token_nets import NETS, embedding_of, text_data, texts
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.explainers import EXPLAINERS
from rightreasons.metrics.registry import METRICS
from rightreasons.objectives import CrossEntropy

pytestmark = pytest.mark.usefixtures("one_thread")

NEED_BOUNDS = [name for name in TERMS if name.startswith(("cert_r4", "ibp_ex"))]
NEED_A_TEACHER = ["atex"]
# Both hold the sample itself constant: IGA compares gradients with it, and a valid range ends at it
# where it lies outside. So their finite differences leave the embeddings where they are.
SAMPLE_CONSTANT = ["iga", "cert_r4 margin range"]
ANY_NET = [name for name in TERMS if name not in (*NEED_BOUNDS, *NEED_A_TEACHER)]
SOME = ["cross_entropy", "r3", "r3 margin l2", "smooth_r3", "rand_r4", "adv_r4", "pgd_ex"]
SOME += ["input_gradient", "density", "ig_norm", "l2_alignment", "counterexamples"]
ON_TOKENS = ["counterexamples"]  # moves tokens, and not features
SAMPLEWISE = [name for name in ANY_NET if not TERMS[name][1]]
EXPLAINED = ["input_gradient", "input_times_gradient", "smooth_grad", "integrated_gradients"]


@pytest.fixture(params=NETS)
def net(request):
    torch.manual_seed(0)
    return NETS[request.param]().eval()


@pytest.fixture
def batch():
    return texts()


def pairs():
    every = [("text_mlp", name) for name in [*ANY_NET, *NEED_BOUNDS]]
    others = ("text_cnn", "text_lstm", "bert, sdpa")
    return every + [(net, name) for net in others for name in SOME]


@pytest.mark.parametrize(("of", "name"), pairs())
def test_every_parameter_gets_the_gradient_of_finite_differences(of, name, batch):
    """Embeddings too: features are the output of their table, not a leaf."""
    torch.manual_seed(0)
    start, term = NETS[of]().eval(), TERMS[name][0]().eval()
    moved = copy.deepcopy(start)
    value(term, moved, batch).backward()
    table = embedding_of(start).weight if name in SAMPLE_CONSTANT else None
    direction = [torch.randn_like(p) * (0 if p is table else 1) for p in start.parameters()]
    slope = sum(
        0.0 if p.grad is None else float((p.grad * d).sum())
        for p, d in zip(moved.parameters(), direction, strict=True)
    )
    ends = []
    for step in (1e-6, -1e-6):
        shifted = copy.deepcopy(start)
        with torch.no_grad():
            for parameter, d in zip(shifted.parameters(), direction, strict=True):
                parameter += step * d
        ends.append(value(term, shifted, batch).item())
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=2e-4, abs=1e-7)
    if of != "text_cnn":  # the logits of a net of ReLUs are linear in its embeddings
        assert bool((embedding_of(moved).weight.grad != 0).any())


@pytest.mark.parametrize("name", ["r3", "input_gradient"])
def test_equals_its_slow_twin(name, net, batch):
    twin = {"r3": terms.r3, "input_gradient": terms.input_gradient_norm}[name]
    losses = TERMS[name][0]()(rr.Probe(net, batch, needs_gradient=True))
    expected = []
    for n in range(len(batch)):
        one = batch[n : n + 1].trimmed()
        features = embedding_of(net)(one.x).detach()
        sample = rr.Batch(x=features, y=one.y, mask=one.mask[..., None])
        expected += twin(BehindTheEmbedding(net, one), sample)
    torch.testing.assert_close(
        losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-8
    )


class BehindTheEmbedding(nn.Module):
    """A slow twin of what the probe does: the table is exchanged for the features."""

    def __init__(self, net, one):
        super().__init__()
        self.net, self.one = net, one

    def forward(self, features):
        net = copy.deepcopy(self.net)
        table = embedding_of(net)
        positions = torch.arange(self.one.x.shape[1])[None]
        table.weight = nn.Parameter(features[0].detach())
        return net(positions, attention_mask=self.one.inputs["attention_mask"])


class OnEmbeddings(nn.Module):
    """A net of embeddings as a net of plain features, with the attention of some texts."""

    def __init__(self, net, batch):
        super().__init__()
        self.net, self.batch = net, batch

    def forward(self, features):
        repeats = len(features) // len(self.batch)
        texts = self.batch.repeat(repeats) if repeats > 1 else self.batch
        hook = embedding_of(self.net).register_forward_hook(lambda *_: features)
        try:
            return self.net(texts.x, **texts.inputs)
        finally:
            hook.remove()


@pytest.mark.parametrize("of", ["text_lstm", "bert, sdpa"])
@pytest.mark.parametrize("name", [name for name in ANY_NET if name not in ON_TOKENS])
def test_is_the_term_of_plain_features_behind_the_embedding(name, of, batch):
    """Slow twins hold for plain features, and so they hold for tokens."""
    torch.manual_seed(0)
    net, term = NETS[of]().eval(), TERMS[name][0]().eval()  # states do not move
    features = embedding_of(net)(batch.x).detach()
    plain = batch.with_(x=features, mask=batch.mask[..., None], inputs=None)
    found = []
    for model, samples in ((net, batch), (OnEmbeddings(net, batch).eval(), plain)):
        torch.manual_seed(1)  # terms that draw draw the same
        found.append(term(rr.Probe(model, samples, needs_gradient=True)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-12)
    assert bool((found[0] != 0).any())


@pytest.mark.parametrize("name", SAMPLEWISE)
def test_padding_and_other_texts_change_no_number(name, batch):
    torch.manual_seed(0)
    net = NETS["text_cnn"]().eval()
    check_padding(TERMS[name][0](), net, batch)


@pytest.mark.parametrize("name", ["cross_entropy", "r3", "input_gradient"])
def test_padding_changes_no_number_in_any_net(name, net, batch):
    check_padding(TERMS[name][0](), net, batch)


def check_padding(term, net, batch):
    together = term(rr.Probe(net, batch, needs_gradient=True))
    longer = term(rr.Probe(net, batch.padded(12), needs_gradient=True))
    torch.testing.assert_close(longer, together, rtol=1e-10, atol=1e-12)
    for n in range(len(batch)):
        alone = term(rr.Probe(net, batch[n : n + 1].trimmed(), needs_gradient=True))
        torch.testing.assert_close(alone[0], together[n], rtol=1e-10, atol=1e-12)


def test_bounds_hold_for_the_mean_of_embeddings_and_are_refused_by_name_elsewhere(net, batch):
    for name in ("cert_r4", "ibp_ex"):
        if isinstance(net, rr.models.MeanMLP):
            losses = TERMS[name][0]()(rr.Probe(net, batch, needs_gradient=True))
            found = TERMS["rand_r4" if name == "cert_r4" else "pgd_ex"][0]()
            found.epsilon = 0.1
            assert bool((found(rr.Probe(net, batch, needs_gradient=True)) <= losses + 1e-9).all())
        else:
            with pytest.raises(rr.errors.UnsupportedLayerError, match="mean of its embeddings"):
                TERMS[name][0]()(rr.Probe(net, batch, needs_gradient=True))


def test_the_modes_agree_where_nothing_is_dropped_and_the_kernels_do(batch):
    torch.manual_seed(0)
    fast = NETS["bert, sdpa"]()
    slow = NETS["bert, eager"]()
    slow.load_state_dict(fast.state_dict())
    objective = CrossEntropy() + 10.0 * TERMS["r3"][0]()
    totals = [objective(one.eval(), batch).total for one in (fast, slow)]
    torch.testing.assert_close(totals[0], totals[1], rtol=1e-9, atol=1e-12)
    frozen = objective.with_settings(frozen_statistics=True)
    parts = [frozen(one, batch).parts["r3"] for one in (fast.train(), slow.eval())]
    torch.testing.assert_close(parts[0], parts[1], rtol=1e-9, atol=1e-12)


class Untrimmed(InMemory):
    """Every batch is padded to twelve tokens."""

    def take(self, rows):
        return self.batch[rows].padded(12).with_(index=rows)


@pytest.mark.parametrize("name", [n for n, metric in METRICS.items() if metric.takes_texts])
@pytest.mark.parametrize("of", ["text_lstm", "bert, sdpa"])
def test_metrics_do_not_depend_on_batches_or_padding(name, of, batch):
    net = NETS[of]().eval()
    several = rr.Batch.collate([batch] * 3).with_(index=torch.arange(18))
    data = text_data(several)
    values = rr.evaluate(net, data, [name])
    others = [
        rr.evaluate(net, data, [name], batch_size=1),
        rr.evaluate(net, Untrimmed(several, data.card), [name]),
    ]
    assert values
    for other in others:
        assert other == pytest.approx(values, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", [n for n, metric in METRICS.items() if not metric.takes_texts])
def test_metrics_for_pixels_are_refused_by_name(name):
    net = NETS["text_mlp"]()
    with pytest.raises(rr.errors.InvalidBatchError, match=f"take texts, but got {name}"):
        rr.evaluate(net, text_data(), [name])


@pytest.mark.parametrize("name", EXPLAINED)
def test_explainers_read_the_attention_mask(name, net, batch):
    explain = EXPLAINERS.create(name)
    together = explain(net, batch.x, batch.y, inputs=batch.inputs)
    longer = batch.padded(12)
    padded = explain(net, longer.x, longer.y, inputs=longer.inputs)
    counts = batch.inputs["attention_mask"][..., None]
    if name != "smooth_grad":  # its noise has the shape of the batch
        torch.testing.assert_close((padded[:, :7] * counts), together * counts)
    assert together.shape[:2] == (6, 7)
    assert bool((together * (1 - counts)).abs().max() < 1e-12)


def test_a_fit_learns_embeddings_and_fits_the_texts(batch):
    torch.manual_seed(0)
    net = NETS["text_mlp"]()
    before = net.embedding.weight.detach().clone()
    fitted = rr.fit(net, rr.recipes.r3(weight=1.0), text_data(), epochs=60, lr=0.05)
    assert fitted.history[-1]["accuracy"] == 1.0
    moved = (net.embedding.weight != before).any(dim=1)
    used = torch.unique(batch.x[batch.inputs["attention_mask"] == 1])
    assert moved[used].all() and not moved[0]

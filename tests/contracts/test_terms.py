"""The contract of every loss term: the same checks, whatever the formula."""

import copy
import math

import pytest
import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import (
    ATEX,
    CURE,
    CVAR,
    IGA,
    R3,
    AdversarialTraining,
    AdvR4,
    CertR4,
    CosineAlignment,
    CounterExamples,
    CrossEntropy,
    Density,
    GroupDRO,
    Hessian,
    IbpEx,
    IGNorm,
    IGSum,
    InputGradient,
    L2Alignment,
    OneSided,
    PgdEx,
    RandR4,
    ScoreMatching,
    SmoothR3,
    SpectralDecoupling,
    WeightDecay,
)


def trained_teacher():
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()


# name: (how to make it, whether a sample's value depends on its batch or on what is drawn)
TERMS = {
    "cross_entropy": (lambda: CrossEntropy(), False),
    "cross_entropy weighted": (
        lambda: CrossEntropy(class_weights=[1.0, 2.0, 0.5], label_smoothing=0.1),
        False,
    ),
    "r3": (lambda: R3(), False),
    "r3 log_probabilities": (lambda: R3(target="log_probabilities"), False),
    "r3 logit l1": (lambda: R3(target="logit", norm="l1"), False),
    "r3 margin l2": (lambda: R3(target="margin", norm="l2"), False),
    "r3 logsumexp p3": (lambda: R3(target="logsumexp", norm=3.0), False),
    "smooth_r3": (lambda: SmoothR3(num_samples=3), True),
    "smooth_r3 gaussian": (lambda: SmoothR3(noise="gaussian", target="logit"), True),
    "rand_r4": (lambda: RandR4(), True),
    "rand_r4 change l2": (lambda: RandR4(form="change", norm="l2"), True),
    "adv_r4": (lambda: AdvR4(), True),
    "adv_r4 change l1": (lambda: AdvR4(form="change", norm="l1", num_samples=3), True),
    "cert_r4": (lambda: CertR4(epsilon=0.2), False),
    "cert_r4 logit l1": (lambda: CertR4(target="logit", norm="l1"), False),
    "cert_r4 change": (lambda: CertR4(form="change"), False),
    "cert_r4 margin range": (
        lambda: CertR4(target="margin", epsilon=None, valid_range=(0.0, 1.0)),
        False,
    ),
    "ibp_ex": (lambda: IbpEx(), False),
    "pgd_ex": (lambda: PgdEx(), True),
    "counterexamples": (lambda: CounterExamples(), True),
    "input_gradient": (lambda: InputGradient(), False),
    "input_gradient loss": (lambda: InputGradient(target="loss", norm="squared_l2"), False),
    "l2_alignment": (lambda: L2Alignment(detach_source=False, epsilon=1.0), True),
    "l2_alignment sign l1": (
        lambda: L2Alignment(detach_source=False, perturbation="sign", target="loss", norm="l1"),
        False,
    ),
    "cosine_alignment": (
        lambda: CosineAlignment(detach_source=False, num_samples=2, epsilon=1.0),
        True,
    ),
    "cosine_alignment gaussian": (
        lambda: CosineAlignment(detach_source=False, perturbation="gaussian", epsilon=1.0),
        True,
    ),
    "hessian loss": (lambda: Hessian(target="loss", num_samples=2), True),
    "cure": (lambda: CURE(epsilon=2.0), False),
    "iga": (lambda: IGA(num_steps=2, epsilon=0.1), True),
    "atex": (lambda: ATEX(teacher=trained_teacher(), epsilon=0.2), True),
    "ig_norm": (lambda: IGNorm(num_steps=2, num_segments=2, epsilon=0.2), True),
    "ig_sum": (lambda: IGSum(num_steps=2, num_segments=2, valid_range=(0.0, 1.0)), True),
    "density": (lambda: Density(), False),
    "density plain p3": (lambda: Density(form="plain", p=3.0), False),
    "density stable": (lambda: Density(form="stable"), False),
    "density efficient l1": (lambda: Density(form="efficient", p=1.0), False),
    "density largest": (lambda: Density(p=math.inf), False),
    "score_matching": (lambda: ScoreMatching(num_samples=2, epsilon=0.1), True),
    "adversarial_training": (lambda: AdversarialTraining(num_steps=2, epsilon=0.2), True),
    "weight_decay": (lambda: WeightDecay(), False),
    "group_dro": (lambda: GroupDRO(num_groups=3), True),
    "cvar": (lambda: CVAR(alpha=0.4), True),
    "one_sided": (lambda: OneSided(mu=0.5), False),
    "spectral_decoupling": (lambda: SpectralDecoupling(gamma=0.5), False),
}
# name: its slow twin, a function of model and batch (those that draw are in tests/objectives)
TWINS = {
    "cross_entropy": lambda model, batch: terms.cross_entropy(model(batch.x), batch.y),
    "r3": terms.r3,
    "input_gradient": terms.input_gradient_norm,
    "cure": lambda model, batch: terms.cure(model, batch, 2.0),
    "weight_decay": lambda model, batch: [terms.weight_decay(model)] * len(batch),
    "spectral_decoupling": lambda model, batch: terms.spectral_decoupling(model(batch.x), 0.5),
}
ALIGNING = ("l2_al", "cosine_al", "hessian", "cure", "iga", "atex", "ig_norm", "ig_sum")
SMOOTHING = ("density", "score_matching", "adversarial")
UNGUIDED = (
    *("cross_entropy", "input_gradient", "weight_decay", "group_dro", "cvar", "spectral"),
    *("one_sided", *ALIGNING, *SMOOTHING),
)
MASKED = [name for name in TERMS if not name.startswith(UNGUIDED)]
ON_GRADIENTS = [name for name in MASKED if not name.startswith(("ibp_ex", "pgd_ex", "counter"))]


@pytest.fixture(params=TERMS)
def term(request):
    return TERMS[request.param][0]()


@pytest.fixture(params=[name for name, (_, mixes) in TERMS.items() if not mixes])
def sample_term(request):
    return TERMS[request.param][0]()


@pytest.fixture(
    params=[name for name, (make, draws) in TERMS.items() if make().needs_gradient and not draws]
)
def gradient_term(request):
    return TERMS[request.param][0]()


def value(term, model, batch, **settings):
    torch.manual_seed(0)  # terms that draw draw the same
    return term.as_objective().with_settings(**settings)(model, batch).total


@pytest.mark.parametrize("name", TWINS)
def test_equals_its_slow_twin(name, tiny_net, tiny_batch):
    tiny_net.eval()
    losses = TERMS[name][0]()(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    expected = torch.tensor(TWINS[name](tiny_net, tiny_batch), dtype=torch.float64)
    rtol = 1e-3 if name == "cure" else 1e-5  # differences of differences
    torch.testing.assert_close(losses, expected, rtol=rtol, atol=1e-8)


def test_gives_one_finite_loss_a_sample(term, tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=term.needs_gradient)
    losses = term(probe)
    assert losses.shape == (6,)
    assert torch.isfinite(losses).all()


def test_parameter_gradients_equal_finite_differences(term, tiny_net, tiny_batch):
    term.eval()  # terms with a state do not move it
    start = copy.deepcopy(tiny_net)  # a pass in train mode moves the statistics
    value(term, tiny_net, tiny_batch, frozen_statistics=True).backward()
    reached = 0
    for parameter, slopes in zip(start.parameters(), tiny_net.parameters(), strict=True):
        direction = torch.randn_like(parameter)
        slope = 0.0 if slopes.grad is None else float((slopes.grad * direction).sum())
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter += step * direction
            moved = copy.deepcopy(start)
            ends.append(value(term, moved, tiny_batch, frozen_statistics=True).item())
            with torch.no_grad():
                parameter -= step * direction
        expected = (ends[0] - ends[1]) / 2e-6
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-7)
        reached += abs(expected) > 1e-6
    assert reached >= len(list(tiny_net.parameters())) - 2  # some biases do not move a gradient


def test_a_sample_does_not_depend_on_its_batch(sample_term, tiny_net, tiny_batch):
    tiny_net.eval()
    together = sample_term(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    for n in range(len(tiny_batch)):
        alone = sample_term(rr.Probe(tiny_net, tiny_batch[n : n + 1], needs_gradient=True))
        torch.testing.assert_close(alone[0], together[n], rtol=1e-12, atol=1e-12)


def test_frozen_statistics_make_it_so_in_train_mode_too(gradient_term, tiny_batch):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(32, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)
    ).double()
    whole = value(gradient_term, copy.deepcopy(model), tiny_batch, frozen_statistics=True).item()
    parts = [
        value(gradient_term, copy.deepcopy(model), tiny_batch[rows], frozen_statistics=True).item()
        for rows in (slice(0, 3), slice(3, 6))
    ]
    assert whole == pytest.approx(sum(parts) / 2, rel=1e-10)


def test_leaves_the_model_as_a_plain_pass_would(term, tiny_batch):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(32, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3)
    ).double()
    model[1].eval()
    plain = copy.deepcopy(model)
    torch.manual_seed(0)
    plain(term.alter(tiny_batch).x)
    modes = [module.training for module in model.modules()]
    for frozen in (False, True):
        twin = copy.deepcopy(model)
        twin[4].bias.grad = torch.ones(3, dtype=torch.float64)
        value(term, twin, tiny_batch, frozen_statistics=frozen)
        assert [module.training for module in twin.modules()] == modes
        assert not any(module._forward_hooks for module in twin.modules())
        assert twin[3].inplace
        assert torch.equal(twin[4].bias.grad, torch.ones(3, dtype=torch.float64))
        assert all(p.grad is None for name, p in twin.named_parameters() if name != "4.bias")
        for ours, theirs in zip(twin.buffers(), plain.buffers(), strict=True):
            assert torch.equal(ours, theirs)
    assert tiny_batch.x.grad is None
    assert not tiny_batch.x.requires_grad


def test_objective_state_survives_a_round_trip(term, tiny_net, tiny_batch):
    tiny_net.eval()
    objective = term.as_objective()
    objective(tiny_net, tiny_batch)
    other = copy.deepcopy(objective)
    other.load_state_dict(objective.state_dict())
    torch.manual_seed(1)
    first = objective(tiny_net, tiny_batch)
    torch.manual_seed(1)
    second = other(tiny_net, tiny_batch)
    assert torch.equal(first.total, second.total)


@pytest.mark.parametrize("name", MASKED)
def test_an_all_zero_mask_is_exactly_erm(name, tiny_net, tiny_batch):
    blank = tiny_batch.replace(mask=torch.zeros_like(tiny_batch.mask))
    tiny_net.eval()
    erm = rr.recipes.erm()(tiny_net, blank)
    term = TERMS[name][0]()
    objective = term.as_objective() if term.is_task else CrossEntropy() + 10.0 * term
    guided = objective(tiny_net, blank)
    assert torch.equal(erm.total, guided.total)
    plain = torch.autograd.grad(erm.total, list(tiny_net.parameters()))
    penalised = torch.autograd.grad(guided.total, list(tiny_net.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(plain, penalised, strict=True))


@pytest.mark.parametrize("name", ON_GRADIENTS)
def test_the_mask_is_where_the_model_must_not_look(name, tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    reads_left = torch.zeros(1, 2, 4, 4, dtype=torch.float64)
    reads_left[..., :2] = 1
    with torch.no_grad():
        model[1].weight *= reads_left.reshape(1, 32)
    left = reads_left[:, :1].expand(6, 1, 4, 4)
    penalty = TERMS[name][0]().as_objective()
    looked_at = penalty(model, tiny_batch.replace(mask=left)).total
    ignored = penalty(model, tiny_batch.replace(mask=1 - left)).total
    assert looked_at > 1e-4
    assert ignored == 0


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_is_required_and_the_error_says_so(name, tiny_net, tiny_batch):
    bare = rr.Batch(x=tiny_batch.x, y=tiny_batch.y)
    with pytest.raises(rr.errors.InvalidBatchError, match="Expected a batch with a `mask`"):
        TERMS[name][0]().as_objective()(tiny_net, bare)


@pytest.mark.parametrize("name", [name for name in TERMS if name not in MASKED])
def test_needs_no_mask(name, tiny_net, tiny_batch):
    bare = rr.Batch(x=tiny_batch.x, y=tiny_batch.y, group=tiny_batch.group)
    term = TERMS[name][0]()
    loss = value(copy.deepcopy(term), tiny_net.eval(), bare)
    assert torch.equal(loss, value(term, tiny_net, tiny_batch))


def test_without_gradient_tracking_it_is_the_same_value(term, tiny_net, tiny_batch):
    tiny_net.eval()
    term.eval()
    with torch.no_grad():
        measured = value(term, tiny_net, tiny_batch)
    assert measured.item() == pytest.approx(value(term, tiny_net, tiny_batch).item(), rel=1e-12)


@pytest.mark.parametrize("name", MASKED)
def test_folding_what_no_mask_touches_changes_nothing(name, tiny_net, tiny_batch):
    """The cheap path of a net that begins with a linear layer, and the plain one."""
    tiny_net.eval()
    term, parameters = TERMS[name][0](), list(tiny_net.parameters())
    ends = []
    for need in ("inside", True):
        torch.manual_seed(0)
        losses = term(rr.Probe(tiny_net, tiny_batch, needs_gradient=need))
        slopes = torch.autograd.grad(losses.sum(), parameters, allow_unused=True)
        ends.append((losses, [torch.zeros(1) if slope is None else slope for slope in slopes]))
    (folded, folded_slopes), (plain, plain_slopes) = ends
    torch.testing.assert_close(folded, plain, rtol=1e-11, atol=1e-13)
    for ours, theirs in zip(folded_slopes, plain_slopes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TERMS)
def test_half_precision_reaches_the_same_weights(name, tiny_net, tiny_batch):
    """As in mixed precision, where passes with and without a graph share their casts."""
    net, term = tiny_net.float().eval(), TERMS[name][0]()
    for part in term.children():  # a teacher is a copy of the double net
        part.float()
    batch = tiny_batch.with_(x=tiny_batch.x.float(), mask=tiny_batch.mask.float())
    slopes = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = value(term, net, batch)
        found = torch.autograd.grad(
            loss, list(net.parameters()), allow_unused=True, materialize_grads=True
        )
        slopes.append(torch.cat([slope.flatten() for slope in found]))
    # small differences of outputs are lost in half precision
    least = 0.1 if name == "score_matching" else 0.8
    assert float(torch.cosine_similarity(*slopes, dim=0)) > least

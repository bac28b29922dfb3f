"""R3 and R4 for texts against slow twins, and what the draws may do."""

import copy

import pytest
import torch
from tests.reference import terms
from tests.token_nets import NETS, TEXT, embedding_of, text_data, texts

import rightreasons as rr
from rightreasons.core import memory
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives import IbpEx, TokenAdvR4, TokenRandR4, TokenSmoothR3
from rightreasons.objectives.token_r4 import choose_tokens

pytestmark = pytest.mark.usefixtures("one_thread")
MAKE = {
    "smooth": lambda: TokenSmoothR3(num_samples=2, share=0.5),
    "rand": lambda: TokenRandR4(num_samples=3, share=0.6),
    "rand, elementwise": lambda: TokenRandR4(num_samples=3, form="elementwise"),
    "adv": lambda: TokenAdvR4(num_candidates=None, num_places=None),
    "adv, some": lambda: TokenAdvR4(num_candidates=2, num_places=2),
}


@pytest.fixture(params=["text_lstm", "bert, sdpa"])
def net(request):
    torch.manual_seed(0)
    return NETS[request.param]().eval()


@pytest.fixture(params=MAKE)
def term(request):
    term = MAKE[request.param]()
    term.prepare(text_data(), num_passes=1)
    return term


def spied(term, net, batch):
    """The losses of a term, and the token ids of the copies it differentiates in the end."""
    seen = []
    original = term.gradients_at

    def spy(probe, tokens, **settings):
        seen.append((tokens, settings["create_graph"]))
        return original(probe, tokens, **settings)

    term.gradients_at = spy
    losses = term(rr.Probe(net, batch))
    del term.gradients_at
    return losses, seen


COMBINE = {
    "smooth": lambda gradients: sum(gradients) / len(gradients),
    "rand, elementwise": lambda gradients: torch.stack(gradients).abs().amax(dim=0),
}


@pytest.mark.parametrize("name", MAKE)
def test_equals_its_slow_twin(name, net):
    batch, made = texts(), MAKE[name]()
    made.prepare(text_data(), num_passes=1)
    losses, seen = spied(made, net, batch)
    final = seen[-1][0]
    combine = COMBINE.get(name, lambda gradients: gradients[0])
    expected = terms.token_norms(net, batch, final, combine)
    torch.testing.assert_close(
        losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12
    )
    if name == "rand":
        tried = [terms.token_norms(net, batch, one, combine) for one, _ in seen[:-1]]
        assert len(tried) == 3
        assert losses.tolist() == pytest.approx([max(some) for some in zip(*tried, strict=True)])
    if name == "adv":
        assert torch.equal(final[0], terms.token_attack(net, batch, TEXT.substitutes))


def test_parameter_gradients_equal_finite_differences(term, net):
    batch = texts()
    objective = term.eval().as_objective()

    def total(model):
        torch.manual_seed(3)
        return objective(model, batch).total

    moved = copy.deepcopy(net)
    total(moved).backward()
    direction = [torch.randn_like(parameter) for parameter in net.parameters()]
    pairs = zip(moved.parameters(), direction, strict=True)
    slope = sum(0.0 if p.grad is None else float((p.grad * d).sum()) for p, d in pairs)
    ends = []
    for step in (1e-6, -1e-6):
        shifted = copy.deepcopy(net)
        with torch.no_grad():
            for parameter, d in zip(shifted.parameters(), direction, strict=True):
                parameter += step * d
        ends.append(total(shifted).item())
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=2e-4, abs=1e-8)


class Draws:
    """Draws that belong to a text and a place, whatever the batch and its padding."""

    def __init__(self, rows=slice(None)):
        self.rows, self.calls = rows, 0

    def __call__(self, *shape, **settings):
        shape = shape[0] if len(shape) == 1 else shape
        generator = torch.Generator().manual_seed(self.calls)
        self.calls += 1
        if len(shape) == 2:  # texts and words
            return torch.empty(6, 4).uniform_(generator=generator)[self.rows, : shape[1]]
        drawn = torch.empty(5, 6, 16).uniform_(generator=generator)
        return drawn[: shape[0], self.rows, : shape[2]]


def test_neither_padding_nor_other_texts_nor_the_mode_change_a_number(term, net, monkeypatch):
    batch = texts()

    def losses(model, some, rows=slice(None)):
        monkeypatch.setattr(torch, "rand", Draws(rows))
        return term(rr.Probe(model, some))

    together = losses(net, batch)
    assert bool((together > 0).all())
    for other in (losses(net, batch.padded(12)), losses(copy.deepcopy(net).train(), batch)):
        torch.testing.assert_close(other, together, rtol=1e-10, atol=1e-14)
    for n in range(len(batch)):
        rows = slice(n, n + 1)
        alone = losses(net, batch[rows].trimmed(), rows)
        torch.testing.assert_close(alone, together[rows], rtol=1e-10, atol=1e-14)


def test_kernels_of_attention_agree(term):
    batch, found = texts(), []
    fast, slow = NETS["bert, sdpa"]().eval(), NETS["bert, eager"]().eval()
    slow.load_state_dict(fast.state_dict())
    for net in (fast, slow):
        torch.manual_seed(0)
        loss = term.eval().as_objective()(net, batch).total
        loss.backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        found.append((loss.detach(), torch.cat([one.flatten() for one in gradients])))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_small_passes_give_the_same(term, net):
    batch, totals = texts(), []
    for rows in (None, 4):
        torch.manual_seed(0)
        objective = term.as_objective().with_settings(max_rows=rows)
        model = copy.deepcopy(net)
        loss = objective(model, batch)
        loss.backward()
        totals.append((loss.total.item(), model.state_dict(keep_vars=True)))
    (whole, first), (parts, second) = totals
    assert whole == pytest.approx(parts, rel=1e-10)
    for name, parameter in first.items():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, second[name].grad)


def gradients_of(term, net, batch):
    """The loss of a term and the gradients of all parameters, for one random state."""
    torch.manual_seed(0)
    model = copy.deepcopy(net)
    loss = term.as_objective()(model, batch)
    loss.backward()
    named = model.named_parameters()
    return loss.total.detach(), {n: p.grad for n, p in named if p.grad is not None}


def test_passes_that_fit_the_cache_give_the_same(term, net, monkeypatch):
    loss, gradients = gradients_of(term, net, texts())
    monkeypatch.setattr(memory, "CACHED", 1)  # a text a pass
    split_loss, split = gradients_of(term, net, texts())
    torch.testing.assert_close(split_loss, loss)
    assert split.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(split[name], gradient)


@pytest.mark.parametrize("frozen", [False, True])
def test_what_a_search_has_found_is_not_computed_again(net, frozen):
    """One pass of the task, three of draws, one to differentiate; values as without a search."""
    batch, draws = texts(), TokenRandR4(num_samples=3, share=0.6)
    draws.prepare(text_data(), num_passes=1)
    embedding_of(net).weight.requires_grad_(not frozen)
    draws(rr.Probe(net, batch))  # sizes are measured once
    passes = []
    net.register_forward_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    objective = rr.objectives.CrossEntropy() + 1.0 * draws
    objective(net, batch).backward()
    assert len(passes) == 5

    torch.manual_seed(0)
    _, seen = spied(draws, net, batch)
    chosen = seen[-1][0][0]
    single = TokenRandR4(num_samples=1)
    single.substitutes = lambda some: some.x.new_tensor([0])
    single.gradient = lambda probe: single.gradients_at(probe, chosen[None], create_graph=True)[0]
    (loss, gradients), (plain_loss, plain) = (
        gradients_of(one, net, batch) for one in (draws, single)
    )
    torch.testing.assert_close(loss, plain_loss)
    assert gradients.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(gradients[name], gradient)


def test_texts_without_a_mask_make_no_pass(term, net):
    batch = texts()
    keep = torch.tensor([1.0, 0, 1, 0, 0, 1], dtype=torch.float64)
    some = batch.with_(mask=batch.mask * keep[:, None])
    sizes = []
    net.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    probe = rr.Probe(net, some)
    losses = term(probe)
    assert torch.equal(losses == 0, keep == 0)
    assert len(sizes) > 1
    assert all(size % 3 == 0 for size in sizes[1:] if size > 1)  # one text measures the size


def test_a_controlled_weight_differentiates_the_penalty_once(net):
    data, objective = text_data(), rr.recipes.token_rand_r4()
    objective.prepare(data, num_passes=4)
    objective(net, data.batch).backward()
    passes = []
    net.register_forward_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    objective(net, data.batch).backward()
    assert sum(passes) == 5  # the controller's own pass needs no gradient


def test_who_may_change_and_into_what(term, net):
    batch = texts()
    _, seen = spied(term, net, batch)
    masked, attended = batch.mask != 0, batch.inputs["attention_mask"] == 1
    for tokens, _ in seen:
        changed = tokens != batch.x
        if isinstance(term, TokenSmoothR3):
            assert not (changed & ~attended).any()
            assert not torch.isin(tokens[changed], torch.tensor(TEXT.special)).any()
        else:
            assert not (changed & ~masked).any()
            assert torch.isin(tokens[changed], torch.tensor(TEXT.substitutes)).all()


def test_at_least_one_token_is_chosen_and_none_where_none_may_be():
    allowed = torch.tensor([[True, False, True], [False, False, False]])
    chosen = choose_tokens(allowed, 0.01, 20)
    assert (chosen.sum(dim=2) == torch.tensor([1, 0])).all()
    assert not (chosen & ~allowed).any()


def test_an_empty_mask_costs_nothing_and_no_mask_is_refused(term, net):
    batch = texts()
    blank = batch.with_(mask=torch.zeros_like(batch.mask))
    assert torch.equal(term(rr.Probe(net, blank)), torch.zeros(6, dtype=torch.float64))
    with pytest.raises(InvalidBatchError, match="Expected a batch with a `mask`"):
        term(rr.Probe(net, batch.with_(mask=None)))


def test_pixels_are_refused(term, tiny_net, tiny_batch):
    with pytest.raises(InvalidBatchError, match="Expected token ids for Token"):
        term(rr.Probe(tiny_net, tiny_batch))


def test_without_a_word_list_substitutes_are_what_masks_cover():
    batch = texts()
    data = rr.datasets.InMemory(batch)
    term = TokenRandR4()
    term.prepare(data, num_passes=1)
    expected = torch.unique(batch.x[batch.mask != 0])
    assert torch.equal(term.substitutes(batch), expected)
    assert torch.equal(TokenRandR4().substitutes(batch), expected)


@pytest.mark.parametrize("recipe", ["token_smooth_r3", "token_rand_r4", "token_adv_r4"])
def test_recipes_train_with_a_weight_that_chooses_itself(recipe, net):
    fitted = rr.fit(net.float(), getattr(rr.recipes, recipe)(), text_data(), epochs=2)
    assert recipe in fitted.weights


def test_a_share_of_nothing_is_refused():
    with pytest.raises(InvalidSettingError, match="`share` above 0"):
        TokenRandR4(share=0)


def test_the_box_of_all_substitutes_holds_every_text_that_uses_them():
    torch.manual_seed(0)
    net, batch = NETS["text_mlp"]().eval(), texts()
    term = IbpEx(epsilon=None)
    term.prepare(text_data(), num_passes=1)
    probe = rr.Probe(net, batch, needs_gradient="inside")
    bound = term(probe)
    worst = torch.zeros(6, dtype=torch.float64)
    for _ in range(50):
        drawn = torch.tensor(TEXT.substitutes)[torch.randint(4, batch.x.shape)]
        some = batch.with_(x=torch.where(batch.mask != 0, drawn, batch.x))
        logits = rr.Probe(net, some).logits
        worst = torch.maximum(worst, rr.Target.LOSS(logits, batch.y))
    assert (worst <= bound).all() and bool((worst > rr.Target.LOSS(probe.logits, batch.y)).any())

"""Erasure and token F1 against loops."""

import pytest
import torch
from tests.reference.terms import token_gradient
from tests.token_nets import NETS, text_data, texts

import rightreasons as rr
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics import Comprehensiveness, Sufficiency, TokenAgreement


def word_scores(net, one):
    """|e · g| of the label's logit for each token of one text."""
    table = next(m for m in net.modules() if isinstance(m, torch.nn.Embedding))
    features = table(one.x).detach().requires_grad_()
    probe = rr.Probe(net, one, needs_gradient=True, features=features)
    gradient = probe.gradient("logit")[0]
    return [
        float((e * g).sum().abs())
        for e, g in zip(features[0].detach(), gradient.detach(), strict=True)
    ]


def probability(net, one, kept):
    attention = torch.tensor([[int(place in kept) for place in range(one.x.shape[1])]])
    return net(one.x, attention_mask=attention).softmax(dim=1)[0, int(one.y)].item()


@pytest.mark.parametrize("kind", [Comprehensiveness, Sufficiency])
def test_erasure_equals_loops(kind):
    torch.manual_seed(0)
    net, batch = NETS["text_mlp"]().eval(), texts()
    shares, changes = (0.2, 0.5), []
    for n in range(len(batch)):
        one = batch[n : n + 1].trimmed()
        places = range(one.x.shape[1])
        scores = word_scores(net, one)
        order = sorted(places, key=lambda place: -scores[place])
        total = 0.0
        for share in shares:
            top = order[: max(1, round(share * len(order)))]
            kept = [p for p in places if (p in top) == (kind is Sufficiency)]
            total += probability(net, one, list(places)) - probability(net, one, kept)
        changes.append(total / len(shares))
    metric = kind(shares=shares)
    values = rr.evaluate(net, text_data(), [metric])
    assert values[metric.name] == pytest.approx(sum(changes) / len(changes), abs=1e-9)


def test_token_f1_equals_loops():
    torch.manual_seed(0)
    net, batch = NETS["text_mlp"]().eval(), texts()
    found = []
    for n in range(len(batch)):
        one = batch[n : n + 1].trimmed()
        rationale = {p for p in range(one.x.shape[1]) if one.mask[0, p] == 0}
        scores = word_scores(net, one)
        if 0 < len(rationale) < len(scores):
            order = sorted(range(len(scores)), key=lambda place: -scores[place])
            top = set(order[: len(rationale)])
            found.append(
                (len(top & rationale) / len(top), len(top & rationale) / len(top | rationale))
            )
    values = rr.evaluate(net, text_data(), ["token_agreement"])
    assert values["token_agreement/n"] == len(found)
    assert values["token_agreement"] == pytest.approx(sum(f for f, _ in found) / len(found))
    assert values["token_agreement/iou"] == pytest.approx(sum(i for _, i in found) / len(found))


def test_a_text_without_a_rationale_does_not_count_and_pixels_are_refused(tiny_net, tiny_batch):
    batch = texts()
    everything = batch.with_(mask=batch.inputs["attention_mask"].double())
    net = NETS["text_mlp"]()
    assert rr.evaluate(net, text_data(everything), ["token_agreement"]) == {"token_agreement/n": 0}
    with pytest.raises(InvalidBatchError, match="Expected texts for TokenAgreement"):
        rr.evaluate(tiny_net, tiny_batch, [TokenAgreement(attribution="gradient")])


def test_the_twin_of_gradients_is_the_probe():
    torch.manual_seed(0)
    net, batch = NETS["text_lstm"]().eval(), texts()
    gradient = rr.Probe(net, batch, needs_gradient=True).gradient("loss")
    one = token_gradient(net, batch.x[0], batch.inputs["attention_mask"][0], int(batch.y[0]))
    torch.testing.assert_close(gradient[0], one)

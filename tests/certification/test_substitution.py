"""Certificates for texts: exact by enumeration, and by bounds of the mean embedding."""

import pytest
import torch
from tests.token_nets import NETS, TEXT, text_data, texts

import rightreasons as rr
from rightreasons.certification import Certificate
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnsupportedLayerError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("of", NETS)
def test_enumeration_equals_loops(of, tmp_path):
    torch.manual_seed(0)
    net, batch = NETS[of]().eval(), texts()
    batch = batch.with_(mask=torch.cat([batch.mask[:5], 0 * batch.mask[5:]]))
    proof = rr.certify_substitutes(net, text_data(batch))
    for n, verdict in enumerate(proof.samples):
        one = batch[n : n + 1].trimmed()
        margins = []
        for place in one.mask[0].nonzero().flatten().tolist():
            for word in TEXT.substitutes:
                x = one.x.clone()
                x[0, place] = word
                logits = net(x, **one.inputs)
                margins.append(rr.Target.MARGIN(logits, torch.tensor([verdict.prediction])).item())
        if not margins:
            assert verdict.status == "nothing"
            continue
        assert verdict.margin_found == pytest.approx(min(margins), abs=1e-9)
        assert verdict.status == ("verified" if min(margins) > 0 else "refuted")
    assert "whichever of 4 words stand in a masked place" in proof.sentence
    again = Certificate.from_json(proof.to_json(tmp_path / "certificate.json"))
    assert again.summary == proof.summary


def test_bounds_prove_less_than_enumeration_and_never_more():
    torch.manual_seed(0)
    net, data = NETS["text_mlp"]().eval(), text_data()
    with torch.no_grad():
        net.embedding.weight[list(TEXT.substitutes)] *= 0.01  # words that hardly matter
    tried = rr.certify_substitutes(net, data)
    bounded = rr.certify_substitutes(net, data, method="bounds")
    assert bounded.summary["counts"]["verified"] > 0
    for one, other in zip(tried.samples, bounded.samples, strict=True):
        assert other.status in (one.status, "unknown")
        assert other.margin_proved <= one.margin_found + 1e-12


def test_what_is_refused():
    batch = texts()
    with pytest.raises(UnsupportedLayerError, match="mean of its embeddings.*got TextCNN"):
        rr.certify_substitutes(NETS["text_cnn"](), text_data(), method="bounds")
    with pytest.raises(InvalidSettingError, match="the data have no word list"):
        rr.certify_substitutes(NETS["text_mlp"](), batch)
    with pytest.raises(InvalidBatchError, match="Expected data with masks"):
        rr.certify_substitutes(NETS["text_mlp"](), batch.with_(mask=None))
    with pytest.raises(InvalidBatchError, match="Use certify_substitutes"):
        rr.certify(NETS["text_mlp"](), text_data(), epsilon=0.1)


@pytest.mark.parametrize("of", ["with a card", "ids alone"])
def test_boxes_of_token_ids_are_refused(of):
    batch = texts().to(torch.float32)
    data = text_data(batch) if of == "with a card" else batch
    with pytest.raises(InvalidBatchError, match="whose words are replaced by others. Use certify_"):
        rr.certify(NETS["text_mlp"]().float(), data, epsilon=0.1)

import pytest
import torch
from tests.reference import annotators as slow

from rightreasons.annotators import MaskQuality, mask_quality
from rightreasons.annotators.quality import confidence, iou, mask_uncertainty
from rightreasons.errors import InvalidSettingError


def test_entropy_is_the_slow_twin():
    soft = torch.rand(3, 1, 4, 5).double()
    soft[0, 0, 0, :2] = torch.tensor([0.0, 1.0])
    twin = [slow.entropy(one[0].tolist()) for one in soft]
    assert mask_uncertainty(soft).tolist() == pytest.approx(twin)
    assert confidence(soft).flatten().tolist() == pytest.approx([1 - value for value in twin])
    assert confidence(soft).shape == (3, 1, 1, 1)


def test_its_ends():
    values = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    assert mask_uncertainty(values).tolist() == pytest.approx([1, 0])


@pytest.fixture
def masks():
    generator = torch.Generator().manual_seed(0)
    soft = torch.rand(5, 1, 4, 6, generator=generator).double()
    mask = (torch.rand(5, 1, 4, 6, generator=generator) > 0.6).double()
    soft[0], mask[0] = 0, 0  # both empty
    mask[1] = 1
    return soft, mask


def mean(values):
    return sum(values) / len(values)


def test_every_number_is_the_slow_twin(masks):
    soft, mask = masks
    quality = MaskQuality(num_bins=7)
    for rows in (slice(0, 2), slice(2, 5)):
        quality.update(soft[rows], mask[rows])
    pairs = [(p[0].tolist(), m[0].tolist()) for p, m in zip(soft, mask, strict=True)]
    cut = [(slow.cut(p), slow.cut(m)) for p, m in pairs]
    rest = [(slow.outside(p), slow.outside(m)) for p, m in cut]
    assert quality.values() == pytest.approx(
        {
            "iou": mean([slow.iou(*pair) for pair in cut]),
            "marked_iou": mean([slow.iou(*pair) for pair in cut[1:]]),
            "relevant_iou": mean([slow.iou(*pair) for pair in rest]),
            "soft_iou": mean([slow.iou(*pair) for pair in pairs]),
            "dice": mean([slow.dice(*pair, 1e-300) for pair in cut]),
            "calibration_error": slow.calibration_error(*zip(*pairs, strict=True), 7),
            "num_masks": 5,
            "num_marked": 4,
        }
    )


def test_perfect_and_opposite():
    mask = torch.tensor([[[[1.0, 0.0]]]])
    assert iou(mask, mask).item() == 1
    assert iou(mask, 1 - mask).item() == 0
    assert iou(0 * mask, 0 * mask).item() == 1


def test_finding_nothing_does_not_count_as_finding_marks():
    masks = torch.zeros(4, 1, 2, 2)
    masks[0, 0, 0, 0] = 1
    quality = MaskQuality()
    quality.update(torch.zeros_like(masks), masks)
    values = quality.values()
    assert (values["iou"], values["marked_iou"], values["num_marked"]) == (0.75, 0.0, 1)
    unmarked = MaskQuality()
    unmarked.update(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))
    assert "marked_iou" not in unmarked.values()


def test_it_reads_the_annotated_or_those_at_places(make_squares):
    data = make_squares(num_annotated=10)
    whole = data.batch.mask

    def right_for_the_first(batch):
        return torch.where(batch.index.reshape(-1, 1, 1, 1) == 0, whole[batch.index], 0.0)

    values = mask_quality(data, right_for_the_first)
    assert (values["num_masks"], values["iou"]) == (10, pytest.approx(0.1))
    assert mask_quality(data, right_for_the_first, places=torch.tensor([0]))["iou"] == 1
    with pytest.raises(InvalidSettingError, match="Expected annotated samples to measure masks on"):
        mask_quality(data, right_for_the_first, places=torch.tensor([]).long())

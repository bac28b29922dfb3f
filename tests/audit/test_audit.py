import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.annotators import with_mask_archive
from rightreasons.audit import Thresholds, accept_findings
from rightreasons.audit.accepting import FAINT
from rightreasons.audit.cause import Effect
from rightreasons.audit.findings import LITTLE_USED, LOOKED_AT, NO_MODEL, USED, Finding, judge
from rightreasons.audit.patches import import_sklearn
from rightreasons.audit.regions import Region
from rightreasons.datasets.dataset import InMemory, Splits
from rightreasons.errors import (
    DatasetCorruptError,
    InvalidBatchError,
    InvalidSettingError,
    MissingExtraError,
    RunNotFoundError,
)
from rightreasons.report.audit_page import write_audit_page

SIDE, TAG = 20, 4


def tagged(size=160, *, tags=True, seed=0):
    """Noise with a square of crosses or of stripes at a random place, which tells the class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % 2
    x = 0.5 * torch.rand(size, 1, SIDE, SIDE, generator=generator)
    mask = torch.zeros(size, 1, SIDE, SIDE)
    places = torch.randint(SIDE - TAG + 1, (size, 2), generator=generator).tolist()
    signs = (1 - torch.eye(TAG), torch.tensor([[1.0, 0.0]]).repeat(TAG, TAG // 2))
    for row, (top, left) in enumerate(places if tags else []):
        x[row, 0, top : top + TAG, left : left + TAG] = signs[int(y[row])]
        mask[row, 0, top : top + TAG, left : left + TAG] = 1
    return rr.Batch(x=x, y=y, mask=mask if tags else None)


class Reader(nn.Module):
    """A net that reads the squares of `tagged`: the best match of each."""

    def __init__(self):
        super().__init__()
        signs = (1 - torch.eye(TAG), torch.tensor([[1.0, 0.0]]).repeat(TAG, TAG // 2))
        kernel = torch.stack([2 * sign - 1 for sign in signs])[:, None]
        self.kernel = nn.Parameter(kernel / kernel.abs().sum(dim=(1, 2, 3), keepdim=True))

    def forward(self, x):
        return 40 * torch.nn.functional.conv2d(x, self.kernel).amax(dim=(2, 3))


@pytest.fixture(scope="module")
def found():
    return rr.audit(Reader(), tagged(), progress=False)


def test_a_planted_tag_is_found_first_proved_and_masked(found, tmp_path):
    first = found.findings[0]
    assert (first.kind, first.verdict) == ("patch", USED)
    assert first.effect.low >= 0.5 and first.removal.value > 0.2
    assert first.interval == (first.effect.low, first.effect.high)
    assert first.area <= 0.05 and first.prevalence > 0.9
    assert first.classes == ("0", "1")
    others = tagged(seed=1)
    masks = first.masks(InMemory(others)) >= 0.5
    true = others.mask > 0
    overlap = (masks & true).flatten(1).sum(1) / (masks | true).flatten(1).sum(1)
    assert float(overlap.mean()) >= 0.6
    lost = found.reliance["swapped"]["lost"]
    assert lost["value"] > 0.2 and lost["low"] > 0
    assert set(found.reliance["blurred"]["classes"]) == {"0", "1"}
    assert found.reliance["attacked"]["changed"]["value"] > 0.5


def test_an_audit_is_the_same_again_and_after_loading(found, tmp_path):
    again = rr.audit(Reader(), tagged(), progress=False)
    for folder, one in (("one", found), ("two", again)):
        one.save(tmp_path / folder)
    texts = [json.loads((tmp_path / one / "audit.json").read_text()) for one in ("one", "two")]
    for text in texts:
        text.pop("seconds")
    assert texts[0] == texts[1]
    loaded = rr.Audit.load(tmp_path / "one")
    assert [one.name for one in loaded.findings] == [one.name for one in found.findings]
    assert loaded.findings[0].effect == found.findings[0].effect
    data = InMemory(tagged(seed=2))
    assert torch.equal(loaded.findings[0].masks(data), found.findings[0].masks(data))


def test_accepted_masks_are_read_back_soft_and_as_made_by_a_machine(found, tmp_path):
    splits = Splits(*(InMemory(tagged(40, seed=seed)) for seed in (3, 4, 5)))
    told = accept_findings(found, [1], splits, tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "masks.json", "test.npz", "train.npz", "val.npz"
    ]  # fmt: skip
    assert told["train"]["with_mask"] > 0.9
    about = json.loads((tmp_path / "masks.json").read_text())
    assert (about["kind"], about["polarity"], about["complete"]) == ("masks", "irrelevant", True)
    read = with_mask_archive(splits.val, tmp_path / "val.npz").take(torch.arange(40))
    assert not read.annotated.any() and read.guided.float().mean() > 0.9
    expected = found.findings[0].masks(splits.val)
    expected[expected < FAINT] = 0  # seams are left out
    assert torch.allclose(read.mask, expected, atol=1 / 255)
    for numbers, message in (
        ([], "Expected numbers of findings to accept, such as 1 3"),
        ([99], "Expected `finding` to be a whole number from 1 to"),
    ):
        with pytest.raises(InvalidSettingError, match=message):
            accept_findings(found, numbers, splits, tmp_path)


def test_whole_image_findings_have_no_masks(tmp_path):
    colour = Finding("brightness", "colour", verdict=USED, flagged=True)
    detail = Finding("sharpness", "detail", verdict=USED, flagged=True)
    made = rr.Audit((colour, detail), facts={"classes": ["0", "1"]})
    data = InMemory(tagged(40))
    with pytest.raises(InvalidSettingError, match="is a property of the whole input"):
        colour.masks(data)
    assert accept_findings(made, [1], data, tmp_path) == {}
    assert json.loads((tmp_path / "masks.json").read_text())["kind"] == "colour"
    with pytest.raises(InvalidSettingError, match="'sharpness' has none, so there is nothing to"):
        accept_findings(made, [2], data, tmp_path)


def test_an_audit_removes_files_of_an_older_one_alone(found, tmp_path):
    names = ["region_map.npz", "pictures/cat.png", "pictures/99_typical_1.png", "region_99.npz"]
    (tmp_path / "pictures").mkdir()
    for name in names:
        (tmp_path / name).write_bytes(b"mine")
    found.save(tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == [b"mine"] * 4
    found.save(tmp_path)  # names that an audit writes are now taken for those of the older one
    assert [(tmp_path / name).exists() for name in names] == [True, True, False, False]
    with pytest.raises(InvalidSettingError, match=r"holds an audit. Choose another \(--out\)"):
        accept_findings(found, [1], InMemory(tagged(40)), tmp_path)
    assert rr.Audit.load(tmp_path).findings[0].region is not None


def test_a_finding_without_a_region_takes_no_file_that_lay_there(tmp_path):
    colour = Finding("brightness", "colour", verdict=USED, flagged=True)
    (tmp_path / "region_1.npz").write_bytes(b"mine")
    rr.Audit((colour,), facts={"classes": ["0", "1"]}).save(tmp_path)
    assert rr.Audit.load(tmp_path).findings[0].region is None


@pytest.mark.parametrize("name", ["images.npz", "masks.json"])
def test_masks_replace_accepted_masks_alone(name, found, tmp_path):
    data, masks, other = InMemory(tagged(40)), tmp_path / "masks", tmp_path / "other"
    accept_findings(found, [1], Splits(data, data, data), masks)
    accept_findings(found, [1], data, masks)
    assert [one.name for one in masks.glob("*.npz")] == ["train.npz"]
    other.mkdir()
    for folder in (masks, other):
        (folder / name).write_text("{}")
        with pytest.raises(InvalidSettingError, match=rf"has {name}, which .* did not write"):
            accept_findings(found, [1], data, folder)
        assert (folder / name).read_text() == "{}"
    assert (masks / "train.npz").exists()


def test_clean_data_and_a_fair_model_give_no_finding():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 2))
    clean = rr.audit(model, tagged(tags=False), progress=False)
    assert clean.findings == () and clean.reliance is None
    assert {one.verdict for one in clean.others} == {LOOKED_AT}


def test_a_model_that_always_says_the_same_is_audited():
    """Its windows have no other class to be compared with."""

    class Constant(nn.Module):
        def forward(self, x):
            return torch.stack([1 + 0 * x.mean(dim=(1, 2, 3)), 0 * x.mean(dim=(1, 2, 3))], dim=1)

    audited = rr.audit(Constant(), tagged(80), progress=False)
    assert not any(one.kind == "attended patch" for one in audited.findings + audited.others)


class Wide(Reader):
    """A reader with two outputs more than classes, of which it likes the last best at times."""

    def forward(self, x):
        scores = super().forward(x)
        spare = scores.amax(dim=1) + 40 * (x[:, 0, 0, 0] - 0.25)
        return torch.stack([*scores.unbind(dim=1), 0 * spare, spare], dim=1)


def test_a_model_with_more_outputs_than_classes_is_audited(tmp_path):
    made = rr.audit(Wide(), tagged(), progress=False)
    assert {one["predicted"] for one in made.facts["sure_and_wrong"]} == {"output 3"}
    assert any("output 3" in one.classes for one in [*made.findings, *made.others])
    made.save(tmp_path)
    assert "predicted output 3" in write_audit_page(tmp_path).read_text()


@pytest.mark.parametrize("size", [(2, 120), (300, 5)])
def test_a_narrow_strip_keeps_pixels_for_a_patch_when_it_is_shrunk(size):
    generator = torch.Generator().manual_seed(0)
    x, y = 0.5 * torch.rand(80, 1, *size, generator=generator), torch.arange(80) % 2
    x[y == 1, :, :2, :2] = 1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(size[0] * size[1], 2))
    made = rr.audit(model, rr.Batch(x=x, y=y), progress=False)
    assert "patch" in {one.kind for one in [*made.findings, *made.others]}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.Linear(400, 1)], r"two outputs or more, but it gives one .* Give a binary model two"),
        ([nn.Linear(400, 2), nn.Softmax(dim=1)], "Expected logits, but the model ends in softmax"),
    ],
)
def test_outputs_that_are_no_logits_of_classes_are_refused_before_the_search(layers, message):
    model, images = nn.Sequential(nn.Flatten(), *layers), tagged(60)
    for x in (images.x, images.x.flatten(1)):
        with pytest.raises(InvalidBatchError, match=message):
            rr.audit(model, rr.Batch(x=x, y=images.y), progress=False)


def test_data_alone_and_further_columns():
    batch = tagged(tags=False)
    columns = {
        "site": ["b" if y else "a" for y in batch.y.tolist()],
        "age": torch.rand(160).tolist(),
        "note": ["" if y else "seen" for y in batch.y.tolist()],
    }
    found = rr.audit(None, batch, columns=columns, progress=False)
    assert [(one.name, one.verdict) for one in found.findings] == [
        ("site", NO_MODEL),
        ("note", NO_MODEL),
    ]
    with pytest.raises(InvalidSettingError, match="Expected 160 values in the column 'site'"):
        rr.audit(None, batch, columns={"site": ["a"]}, progress=False)


def test_each_word_of_a_column_may_stand_for_a_class():
    stream = np.random.default_rng(0)
    y = torch.arange(400) % 10
    told = [
        n if right else int(stream.integers(10))
        for n, right in zip(y.tolist(), stream.random(400) < 0.9, strict=True)
    ]
    columns = {
        "site": [f"site {7 * n % 10}" for n in told],
        "room": [f"room {n}" for n in stream.integers(10, size=400)],
    }
    batch = rr.Batch(x=torch.rand(400, 1, 8, 8), y=y)
    found = rr.audit(None, batch, columns=columns, progress=False)
    assert [one.name for one in found.findings] == ["site"]
    assert found.findings[0].tells_label > 0.75


def test_a_column_of_a_table_is_found_and_masked(tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 2
    x = torch.rand(200, 5, generator=generator)
    x[:, 3] += y
    model = nn.Linear(5, 2)
    with torch.no_grad():
        model.weight.copy_(20 * torch.tensor([[0, 0, 0, -1.0, 0], [0, 0, 0, 1.0, 0]]))
        model.bias.copy_(20 * torch.tensor([1.0, -1.0]))
    found = rr.audit(model, rr.Batch(x=x, y=y), progress=False)
    first = found.findings[0]
    assert (first.name, first.kind, first.verdict) == ("column 3", "column", USED)
    assert len(found.findings) == 1
    data = InMemory(rr.Batch(x=x, y=y))
    assert first.masks(data).sum(dim=0).tolist() == [0, 0, 0, 200, 0]
    accept_findings(found, [1], data, tmp_path)
    read = with_mask_archive(data, tmp_path / "train.npz").take(torch.arange(3))
    assert read.mask.tolist() == [[0, 0, 0, 1, 0]] * 3


@pytest.mark.parametrize(
    ("tells", "effect", "area", "has_model", "verdict", "flagged"),
    [
        (0.9, Effect(0.8, 0.7, 0.9, 50), 0.04, True, USED, True),
        (0.2, Effect(0.8, 0.7, 0.9, 50), 0.04, True, USED, True),
        (0.2, Effect(0.8, 0.7, 0.9, 50), 0.20, True, LOOKED_AT, False),
        (0.9, Effect(0.6, 0.4, 0.8, 50), 0.04, True, LITTLE_USED, True),
        (0.9, None, 0.04, False, NO_MODEL, True),
        (0.6, Effect(0.6, 0.4, 0.8, 50), 0.04, True, LOOKED_AT, False),
    ],
)
def test_effect_sizes_decide(tells, effect, area, has_model, verdict, flagged):
    region = Region("patterns")
    finding = Finding("a patch", "patch", tells, 0.01, effect, area=area, region=region)
    judged = judge(finding, Thresholds(), has_model=has_model)
    assert (judged.verdict, judged.flagged) == (verdict, flagged)
    by_chance = judge(
        Finding("a patch", "patch", 0.9, 0.5, None), Thresholds(), has_model=has_model
    )
    assert not by_chance.flagged


def test_the_page_is_whole_and_escaped(found, tmp_path):
    folder = found.save(tmp_path)
    text = (folder / "audit.json").read_text().replace('"data": "data"', '"data": "<b>x</b>"')
    (folder / "audit.json").write_text(text)
    page = write_audit_page(folder).read_text()
    assert "<b>x</b>" not in page and "&lt;b&gt;x&lt;/b&gt;" in page
    assert USED in page and "planted: predicted" in page
    assert page.count("data:image/png;base64,") >= 6
    assert "http://" not in page and "https://" not in page


def test_what_cannot_be_audited_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidBatchError, match="at least 40 samples of two classes"):
        rr.audit(None, tagged(20))
    tokens = rr.Batch(x=torch.randint(9, (60, 5)), y=torch.arange(60) % 2)
    with pytest.raises(InvalidBatchError, match=r"Expected images \(N, C, H, W\) or numeric"):
        rr.audit(None, tokens)
    y = torch.arange(60)
    for x in (torch.rand(60, 1, 8, 8), torch.rand(60, 5)):
        with pytest.raises(InvalidBatchError, match=r"searched .* two classes, but got 1 of '1'"):
            rr.audit(None, rr.Batch(x=x, y=(y < 2).long()), progress=False)
    for size in ((1, 8), (8, 1)):
        with pytest.raises(InvalidBatchError, match=r"2 pixels .* got \dx\d\. .*x\.flatten\(1\)"):
            rr.audit(None, rr.Batch(x=torch.rand(60, 1, *size), y=y % 2), progress=False)
    with pytest.raises(RunNotFoundError, match="Expected an audit in"):
        rr.Audit.load(tmp_path)
    (tmp_path / "audit.json").write_text("[]")
    with pytest.raises(DatasetCorruptError, match="as rightreasons wrote it"):
        rr.Audit.load(tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(MissingExtraError, match=r"The audit needs an extra: run `pip install"):
        import_sklearn()

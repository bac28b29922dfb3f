"""The contract of tables: features, masks by column, groups, missing cells, certificates."""

import csv
import gzip
import logging

import pytest
import torch
from tests.contracts.test_datasets import TABLES

import rightreasons as rr
from rightreasons.datasets import load
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

ROWS = [
    {
        "age": 20 + n % 7,
        "sex": ["f", "m"][n % 2],
        "job": ["cook", "nurse", "clerk"][n % 3],
        "label": ["no", "yes"][n // 2 % 2],
        "split": ["train", "train", "val", "test"][n // 12],
    }
    for n in range(48)
]


def write(path, header, rows):
    with gzip.open(path, "wt", newline="") as lines:
        csv.writer(lines).writerows([header, *rows])


def adult_files(root):
    header = ["age", "fnlwgt", "education", "education_num", "sex", "workclass", "income", "split"]
    rows = [
        [20 + n, 7, "BA", n % 5, ["Male", "Female"][n % 2], ["?", "Private"][n % 3 > 0], n // 2 % 2,
         ["train", "test"][n >= 40]]
        for n in range(60)
    ]  # fmt: skip
    write(root / "adult.csv.gz", header, rows)


def compas_files(root):
    header = ["id", "sex", "race", "age", "c_charge_desc", "decile_score", "score_text"]
    header += ["v_decile_score", "v_score_text", "is_recid", "is_violent_recid", "two_year_recid"]
    rows = [
        [n, ["Male", "Female"][n % 2], ["A", "B", "C"][n % 3], 20 + n, f"x{n}", 1, "Low", 1, "Low",
         n % 2, 0, n // 3 % 2]
        for n in range(60)
    ]  # fmt: skip
    write(root / "compas_two_years.csv.gz", header, rows)


def german_files(root):
    header = ["duration", "personal_status_sex", "purpose", "bad_credit"]
    rows = [[n, ["A91", "A92"][n % 2], ["A4", "A5"][n // 2 % 2], n // 3 % 2] for n in range(60)]
    write(root / "german_credit.csv.gz", header, rows)


def own_files(root):
    write(root / "data.csv.gz", list(ROWS[0]), [list(row.values()) for row in ROWS])


CASES = {
    "adult": ("adult", {}, adult_files, ["sex"]),
    "adult, proxies": ("adult", {"masked": "sex,workclass"}, adult_files, ["sex", "workclass"]),
    "compas": ("compas", {}, compas_files, ["sex", "race"]),
    "german_credit": ("german_credit", {}, german_files, ["personal_status_sex"]),
    "table": ("table", {"masked": "sex", "groups": "sex,label"}, own_files, ["sex"]),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def data(case, tmp_path):
    name, settings, files, _ = case
    files(tmp_path)
    return load(name, data_dir=tmp_path, **settings)


def test_the_table_has_every_table():
    assert {name for name, *_ in CASES.values()} == TABLES


def test_features_masks_and_groups_fit_the_columns(case, data):
    card = data.card
    assert sorted(c.name for c in card.columns if c.masked) == sorted(case[3])
    train = data.train.batch
    assert train.x.shape[1] == sum(max(1, len(c.values)) for c in card.columns)
    for column in card.columns:
        made = train.x[:, column.features].double()
        if column.values:
            assert torch.equal(made.sum(dim=1), torch.ones(len(made), dtype=torch.float64))
        else:
            assert made.mean().abs() < 1e-6 and (made.std(unbiased=False) - 1).abs() < 1e-5
        assert bool((train.mask[:, column.features] == float(column.masked)).all())
    assert train.group is not None and int(train.group.max()) < len(card.groups)
    low, high = card.valid_range
    assert low <= float(train.x.min()) and float(train.x.max()) <= high


def test_recipes_metrics_bounds_and_certificates_work(data):
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=data.card.shape[0], hidden=(8,), classes=2)
    for recipe in ("counterexamples", "r3", "rand_r4", "ibp_ex"):
        rr.fit(model, getattr(rr.recipes, recipe)(), data.train, epochs=1)
    values = rr.evaluate(model, data.test)
    assert "swap_accuracy" in values and "group_accuracy/worst" in values
    tried = rr.certify_substitutes(model, data.test)
    bounded = rr.certify(model, data.test, epsilon=None, num_steps=2)
    assert tried.summary["counts"]["unknown"] == 0
    assert "combinations of values" in tried.sentence
    for one, other in zip(tried.samples, bounded.samples, strict=True):
        assert one.status == "verified" or other.status != "verified"


def test_certificates_by_enumeration_equal_loops(data):
    torch.manual_seed(1)
    model = rr.models.mlp(inputs=data.card.shape[0], hidden=(8,), classes=2).eval()
    proof = rr.certify_substitutes(model, data.test)
    masked = [column for column in data.card.columns if column.masked]
    for verdict, x in zip(proof.samples, data.test.batch.x, strict=True):
        versions = [x]
        for column in masked:
            versions = [
                one.clone().index_fill_(0, torch.arange(*column.features.indices(len(x))), 0.0)
                for one in versions
                for _ in column.values
            ]
            for number, one in enumerate(versions):
                one[column.first + number % len(column.values)] = 1
        answers = {int(model(one[None]).argmax()) for one in versions}
        assert (verdict.status == "verified") == (answers == {verdict.prediction})


def test_missing_files_are_named(case, tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected"):
        load(case[0], data_dir=tmp_path, **case[1])


def test_empty_cells_are_refused_filled_or_dropped(caplog):
    rows = [dict(row) for row in ROWS]
    rows[0]["age"], rows[1]["job"] = "?", ""
    with pytest.raises(DatasetCorruptError, match="1 of 'age', 1 of 'job' in 48 rows.*missing="):
        rr.tables.dataset(rows)
    with caplog.at_level(logging.WARNING, logger="rightreasons"):
        filled = rr.tables.dataset(rows, missing="fill")
    assert "Empty cells were filled: 1 of 'age', 1 of 'job' of 48 rows" in caplog.text
    job = next(column for column in filled.card.columns if column.name == "job")
    assert job.values == ("clerk", "cook", "missing", "nurse")
    assert float(filled.train.batch.x[0, 0]) == 0
    assert len(rr.tables.dataset(rows, missing="drop").train) == 22


def test_codes_may_be_categories_and_new_values_are_logged(caplog):
    rows = [dict(row) for row in ROWS]
    rows[-1]["job"] = "king"
    with caplog.at_level(logging.WARNING, logger="rightreasons"):
        data = rr.tables.dataset(rows, categorical=["age"], drop=["sex"])
    assert "1 rows have a value of 'job' that training has not" in caplog.text
    assert [(c.name, len(c.values)) for c in data.card.columns] == [("age", 7), ("job", 3)]


@pytest.mark.parametrize(
    ("source", "settings", "error", "words"),
    [
        (ROWS, {"masked": ["race"]}, InvalidSettingError, "the column 'race', but the table has"),
        (ROWS, {"label": "income"}, InvalidSettingError, "the column 'income'"),
        (ROWS, {"masked": ["sex"], "drop": ["sex"]}, InvalidSettingError, "'sex' is the label"),
        ([], {}, DatasetCorruptError, "at least one row"),
        ([{**r, "id": f"p{n}"} for n, r in enumerate(ROWS * 10)], {}, InvalidSettingError, "drop="),
        ([r for r in ROWS if r["split"] == "test"], {}, InvalidSettingError, "split 'train'"),
        *(
            ([{**ROWS[0], "age": cell}, *ROWS[1:]], {}, DatasetCorruptError, "Row 1.*finite.*'age'")
            for cell in ("inf", "3O")
        ),
    ],
)
def test_what_is_refused(source, settings, error, words):
    with pytest.raises(error, match=words):
        rr.tables.dataset(source, **settings)


def test_masked_numbers_cannot_be_tried_one_by_one():
    data = rr.tables.dataset(ROWS, masked=["age"])
    model = rr.models.mlp(inputs=data.card.shape[0], hidden=(8,), classes=2)
    with pytest.raises(InvalidSettingError, match="'age' is a number"):
        rr.certify_substitutes(model, data.test)

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


def test_cells_that_are_not_there_are_empty():
    rows = [dict(row) for row in ROWS]
    del rows[3]["age"], rows[5]["label"]
    with pytest.raises(DatasetCorruptError, match="1 of 'label' in 48 rows"):
        rr.tables.dataset(rows)
    rows[5]["label"] = "no"
    with pytest.raises(DatasetCorruptError, match="1 of 'age' in 48 rows"):
        rr.tables.dataset(rows)
    late = [*ROWS[:-1], {**ROWS[-1], "town": "A"}]
    assert "town" in [c.name for c in rr.tables.dataset(late, missing="fill").card.columns]


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


def rows_with_a_proxy():
    """The job is nurse only where the sex is f, and cook only where it is m."""
    jobs = {"f": ["nurse", "clerk"], "m": ["cook", "clerk"]}
    return [
        {
            "age": n,
            "sex": sex,
            "job": jobs[sex][n // 2 % 2],
            "town": ["A", "B", "C"][n % 3],
            "label": n % 2,
            "split": ["train", "test"][n >= 48],
        }
        for n, sex in ((n, ["f", "m"][n // 3 % 2]) for n in range(60))
    ]


@pytest.mark.parametrize("source", ["samples", "pasted"])
def test_strata_keep_masked_values_that_occur_with_the_rest_of_the_row(source):
    data = rr.tables.dataset(rows_with_a_proxy(), masked=["sex"])
    cards = {column.name: column for column in data.card.columns}
    sex, job = cards["sex"].features, cards["job"]
    nurses = data.train.batch.x[:, job.features][:, job.values.index("nurse")] == 1
    women = torch.tensor([float(value == "f") for value in cards["sex"].values])
    changed = []
    for strata in ((), ("job",), ("job", "town")):
        term = rr.objectives.CounterExamples(source=source, strata=strata)
        term.prepare(data.train, num_passes=1)
        term.begin_epoch(1)
        batch = data.train.take(torch.arange(len(data.train)))
        made = term.alter(batch).x
        for n in range(0, 48, 7):
            alone = term.alter(data.train.take(torch.tensor([n]))).x[0]
            assert torch.equal(alone, made[n])
        assert torch.isfinite(term.alter(data.train.batch).x).all()  # without numbers of samples
        if source == "samples":
            assert bool(((made[:, sex] * women).sum(dim=1)[nurses] == 1).all()) == bool(strata)
        others = torch.ones(made.shape[1]).bool()
        others[sex] = False
        assert torch.equal(made[:, others], data.train.batch.x[:, others])
        changed.append(int((made != data.train.batch.x).any(dim=1).sum()))
    assert all(changed)


def test_a_row_takes_every_other_row_of_its_stratum_and_no_more():
    rows = [{"a": n, "b": "uvw"[n % 3], "label": n % 2, "split": "train"} for n in range(12)]
    rows += [{**rows[0], "split": "test"}]
    data = rr.tables.dataset(rows, masked=["a"])
    term = rr.objectives.CounterExamples(source="samples", strata=["b"])
    term.prepare(data.train, num_passes=1)
    batch, column = data.train.take(torch.arange(12)), data.card.columns[0]
    given = []
    for epoch in range(60):
        term.begin_epoch(epoch)
        given.append(term.alter(batch).x[:, 0].double() * column.deviation + column.mean)
    for n in range(12):
        values = {round(float(one[n])) for one in given}
        assert values == {m for m in range(12) if m % 3 == n % 3} - {n}


def test_a_fit_within_strata_says_which_rows_are_alone(caplog):
    data = rr.tables.dataset(rows_with_a_proxy(), masked=["sex"])
    model = rr.models.mlp(inputs=data.card.shape[0], hidden=(4,), classes=2)
    with caplog.at_level(logging.WARNING, logger="rightreasons"):
        rr.fit(model, rr.recipes.counterexamples(strata="age"), data.train, epochs=1)
    assert "100 % of the rows are alone in their stratum of age" in caplog.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strata": ["sex"]}, "not masked, but got 'sex'. There are: age, job, town"),
        ({"strata": ["jobs"]}, "not masked, but got 'jobs'. There are: age"),
        ({"strata": ["job"], "source": "noise"}, "takes other samples, but got 'noise'"),
    ],
)
def test_strata_that_cannot_be_are_refused(settings, words):
    data = rr.tables.dataset(rows_with_a_proxy(), masked=["sex"])
    with pytest.raises(InvalidSettingError, match=words):
        rr.recipes.counterexamples(**settings).prepare(data.train, num_passes=1)


def test_strata_need_to_see_the_table_first():
    data = rr.tables.dataset(rows_with_a_proxy(), masked=["sex"])
    term = rr.objectives.CounterExamples(strata=["job"])
    with pytest.raises(InvalidSettingError, match=r"columns of `strata` before .*prepare"):
        term.alter(data.train.batch)

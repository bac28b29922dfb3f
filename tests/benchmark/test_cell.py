import hashlib
from dataclasses import asdict, replace

import pytest

from rightreasons.benchmark import Budget, Method, Variant
from rightreasons.benchmark.cell import (
    config_key,
    data_key,
    describe_overrides,
    make_cell,
    merge_overrides,
    row_address,
)
from rightreasons.run.config import Config

CONFIG = Config(
    data="decoy_digits", recipe="group_dro", model="mlp", lr=0.1, epochs=10, batch_size=250
)


def test_the_later_layer_wins(make_suite):
    layers = ["base", "variant", "budget", "budget of the variant", "method", "candidate"]
    values = {name: {"data_settings": {name: True, "last": name}} for name in layers}
    suite = make_suite(base={"data": "decoy_digits", **values["base"]})
    variant = Variant(name="v", overrides=values["variant"])
    budget = Budget(
        seeds=(5,), overrides=values["budget"], variants={"v": values["budget of the variant"]}
    )
    method = Method(name="m", overrides=values["method"])

    def built(**changes):
        parts = {"variant": variant, "budget": budget, "method": method, "candidate": {}, **changes}
        return make_cell(suite, seed=5, **parts).config.data_settings

    full = built(candidate=values["candidate"])
    assert full == {**dict.fromkeys(layers, True), "last": "candidate"}
    assert built()["last"] == "method"
    assert built(method=Method(name="m"))["last"] == "budget of the variant"
    assert built(method=Method(name="m"), variant=replace(variant, name="w"))["last"] == "budget"
    plain = {"method": Method(name="m"), "budget": Budget(seeds=(5,))}
    assert built(**plain)["last"] == "variant"
    assert built(**plain, variant=Variant(name="v"))["last"] == "base"


def test_a_cell_says_what_it_is(make_suite):
    suite = make_suite()
    parts = (suite.budget("small"), suite.variants[0], suite.methods[0])
    cell = make_cell(suite, *parts, {"settings": {"weight_decay": 0.5}}, 3)
    assert cell.name == "wrong · ERM · weight_decay 0.5 · seed 3"
    assert cell.config.seed == 3
    assert make_cell(suite, *parts, {}, 3).name == "wrong · ERM · seed 3"


def test_tuples_become_lists_as_in_the_file(make_suite):
    suite = make_suite(base={"data": "decoy_digits", "model_settings": {"hidden": (8, 8)}})
    cell = make_cell(suite, suite.budget("small"), suite.variants[0], suite.methods[0], {}, 0)
    assert cell.config.model_settings == {"hidden": [8, 8]}


def test_merging_leaves_the_layers_alone():
    first, second = {"settings": {"weight": 1}}, {"settings": {"weight": 2}, "lr": 1}
    assert merge_overrides(first, second) == {"settings": {"weight": 2}, "lr": 1}
    assert first == {"settings": {"weight": 1}}


def test_words():
    assert describe_overrides({}) == ""
    assert describe_overrides({"settings": {}, "lr": 1e-5, "model": "mlp"}) == "lr 1e-05, model mlp"


def test_where_a_run_happens_is_not_what_it_is():
    moved = replace(CONFIG, data_dir="there", accelerator="cpu", devices=2)
    assert config_key(moved) == config_key(CONFIG)
    assert config_key(replace(CONFIG, recipe="group-dro", data="decoy-digits")) == config_key(
        CONFIG
    )


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"lr": 0.2},
        {"recipe": "erm"},
        {"settings": {"step_size": 0.1}},
        {"data_settings": {"oracle": True}},
        {"model_settings": {"hidden": [4]}},
        {"precision": "bf16-mixed"},
        {"metrics": ["accuracy"]},
    ],
)
def test_everything_else_is(change):
    assert config_key(replace(CONFIG, **change)) != config_key(CONFIG)


def test_defaults_do_not_count_so_that_new_fields_leave_old_rows_theirs():
    former = {"batch_size": 250, "model": "mlp"}  # defaults when the first rows were kept
    stated = Config(data="decoy_digits", recipe="group_dro", lr=0.1, **former, epochs=10, clip=None)
    text = '{"data": "decoy_digits", "lr": 0.1, "recipe": "group_dro"}'
    expected = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert config_key(stated) == config_key(CONFIG) == expected


def test_an_address_tells_the_data_too():
    one, other = row_address(CONFIG, "a" * 64), row_address(CONFIG, "b" * 64)
    assert one != other
    assert one.split("-")[0] == other.split("-")[0] == config_key(CONFIG)


def test_data_go_by_name_settings_and_seed():
    key = data_key(CONFIG)
    assert data_key(replace(CONFIG, recipe="r3", lr=1.0, data="decoy-digits")) == key
    assert data_key(asdict(CONFIG)) == key
    assert data_key(replace(CONFIG, data_settings={"seed": 0})) == key
    assert data_key(replace(CONFIG, seed=1)) != key
    assert data_key(replace(CONFIG, data_settings={"oracle": True})) != key
    pinned = {"data_settings": {"seed": 7}}
    assert data_key(replace(CONFIG, **pinned, seed=1)) == data_key(replace(CONFIG, **pinned))

import pytest

from rightreasons.benchmark.plan import list_lines
from rightreasons.benchmark.suites.defaults import (
    GUIDED,
    NETS,
    defaults,
    variant_name,
)
from rightreasons.benchmark.suites.defaults_sets import (
    CASES,
    DEVELOPMENT,
    NATURAL,
    NO_SHORTCUT,
    TEST,
)
from rightreasons.objectives.recipes import RECIPES


@pytest.fixture(scope="module")
def suite():
    return defaults()


def test_the_two_lists_are_fixed_and_every_set_is_run(suite):
    assert list(DEVELOPMENT) == ["pets_tag", "decoy_derm", "biased_mnist", "decoy_digits"]
    assert list(TEST) == [
        *("pets_band", "decoy_ham", "textured_mnist"),
        *("waterbirds", "isic2017", "celeba_hair"),
    ]
    possible = {variant_name(data, net) for data in [*DEVELOPMENT, *TEST, *CASES] for net in NETS}
    names = {variant.name for variant in suite.variants}
    assert names <= possible
    for data in [*DEVELOPMENT, *TEST, *CASES]:
        assert any(variant_name(data, net) in names for net in NETS)


def test_data_of_the_two_lists_differ():
    described = [
        str(sorted(one.items(), key=str)) for one in [*DEVELOPMENT.values(), *TEST.values()]
    ]
    assert len(set(described)) == len(DEVELOPMENT) + len(TEST)


def test_recipes_have_their_defaults_and_rows_name_them(suite):
    for line in list_lines(suite, "small"):
        config = line.cell(0, 0).config
        assert line.num_candidates == 1
        if line.method.name not in GUIDED:
            continue
        own = {name: value for name, value in config.settings.items() if name != "class_weights"}
        expected = RECIPES.settings(line.method.name)
        assert config.recipe == line.method.name
        assert set(expected) - set(own) <= {"class_weights", "weight_decay", "strata"}
        assert not expected.get("strata")  # a setting that came after the rows, and is off
        for name, value in own.items():
            assert value == (list(expected[name]) if isinstance(value, list) else expected[name])


def test_methods_of_a_block_differ_in_nothing_else(suite):
    for variant in suite.variants:
        lines = [line for line in list_lines(suite, "small") if line.variant is variant]
        configs = [line.cell(0, 0).config for line in lines]
        assert not any(one.frozen_statistics for one in configs)
        for name in ("epochs", "batch_size", "lr", "model", "model_settings"):
            assert all(getattr(one, name) == getattr(configs[0], name) for one in configs)
        plain = [
            {
                key: value
                for key, value in one.data_settings.items()
                if key not in ("oracle", "share")
            }
            for one in configs  # half of an oracle's lesions have an artefact, as at test
        ]
        assert all(one == plain[0] for one in plain)


def test_every_block_has_erm_first_and_a_reference(suite):
    for variant in suite.variants:
        first, second, *_ = [method.name for method in suite.methods_of(variant)]
        if variant.name.startswith(NO_SHORTCUT):
            assert first == "erm"
            continue
        natural = variant.name.startswith(NATURAL)
        assert {first, second} == {"erm", "group_dro" if natural else "oracle"}

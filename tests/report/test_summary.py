import pytest

from rightreasons.report.summary import data_facts, method_facts, recipe_meaning, run_rows


def test_the_card_is_told(make_section):
    section = make_section(("erm", 0.5, {"data_settings": {"size": 10, "seed": 0}}))
    assert dict(data_facts(section)) == {
        "What it is": "Photographs of lesions.",
        "The shortcut": "A ruler beside malignant lesions.",
        "Classes": "2: benign, malignant",
        "Groups": "2: healthy, ill",
        "Shape": "1 × 10 × 10",
        "Settings": "size=10",
        "Source": "A hospital",
        "Licence": "CC BY 4.0",
    }


def test_long_lists_are_cut_and_empty_entries_left_out(make_section):
    card = {"classes": [str(number) for number in range(20)], "licence": ""}
    facts = dict(data_facts(make_section(("erm", 0.5, {"card": card, "kept": None}))))
    assert facts["Classes"].startswith("20: 0, 1, 2") and facts["Classes"].endswith(", and 8 more")
    assert not {"Groups", "Shape", "Licence"} & set(facts)


def test_a_method_is_told(make_section):
    runs = [
        ("r3", 0.5, {"seed": s, "terms": {"cross_entropy": 1.0, "r3": 12.0 + s}, "seconds": 61 + s})
        for s in (0, 2)
    ]
    (method,) = make_section(*runs).methods
    assert dict(method_facts(method)) == {
        "Loss": "cross_entropy + 12 to 14 × r3",
        "Model": "mlp, 12,345 parameters",
        "Training": "epochs=4, batch_size=50, lr=0.002, optimizer=adam",
        "Weights kept": "of the last epoch",
        "Seeds": "0, 2",
        "Time": "1 min 2 s a seed",
    }


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"used": "worst_group", "epoch": 3}, "by worst group on validation data (3)"),
        ({"used": "accuracy"}, "by accuracy on validation data"),
    ],
)
def test_what_the_weights_were_chosen_by(make_section, selection, expected):
    (method,) = make_section(("erm", 0.5, {"selection": selection})).methods
    assert dict(method_facts(method))["Weights kept"] == f"of the best epoch {expected}"


def test_settings_of_recipe_and_model_are_told(make_section):
    changes = {
        "settings": {"weight": 3.0},
        "model_settings": {"hidden": [9]},
        "num_parameters": None,
    }
    facts = dict(method_facts(make_section(("r3", 0.5, changes)).methods[0]))
    assert (facts["Settings"], facts["Model"]) == ("weight=3", "mlp, hidden=(9)")


def test_recipes_are_explained_if_they_are_known():
    assert "baseline" in recipe_meaning("erm")
    assert recipe_meaning("of_the_future") == ""
    assert recipe_meaning("erm + jtt").startswith(recipe_meaning("erm"))
    assert "misclassified" in recipe_meaning("erm + jtt")


def test_every_run_is_listed(make_section):
    section = make_section(
        ("erm", 0.5, {"name": "here"}), ("r3", 0.5, {"data_sha256": None, "seed": 1})
    )
    first, second = run_rows(section)
    assert (first.method, first.seed, first.digest, first.seconds) == ("erm", 0, "0" * 12, "1.2 s")
    assert first.folder.endswith("here")
    assert first.versions == "rightreasons 0.1.0, torch 2.13.0"
    assert first.message == "The model learned."
    assert second.digest == "unknown"

import numpy as np
import pytest

from rightreasons.report.gallery import make_gallery

PLENTY = 10**9


def test_every_method_shows_the_same_samples(make_section):
    section = make_section(("erm", 0.5, {}), ("r3", 0.8, {}))
    gallery = make_gallery(section, most_bytes=PLENTY)
    assert [(sample.index, sample.label) for sample in gallery.samples] == [
        (0, "benign"),
        (7, "malignant"),
        (14, "benign"),
    ]
    assert gallery.has_masks and gallery.notes == ()
    first, second = gallery.samples[1].views
    assert (first.label, first.colour, first.prediction) == ("erm", 0, "benign")
    assert (first.is_right, first.probability, second.label) == (False, "87.5\u202f%", "r3")
    assert gallery.samples[0].views[0].is_right
    assert first.in_mask.endswith("%")


def swapped(kept, **changes):
    """What a run keeps of the same samples after the masked part was exchanged."""
    return kept | {
        "swapped": 1 - kept["x"],
        "swapped_prediction": np.array([1, 0, 1]),
        "changed": np.array([True, True, False]),
        **changes,
    }


def test_the_counterfactual_is_shown_with_what_becomes_of_the_prediction(
    make_section, make_examples
):
    kept = swapped(make_examples())
    gallery = make_gallery(make_section(("erm", 0.5, {"kept": kept})), most_bytes=PLENTY)
    views = [sample.views[0] for sample in gallery.samples]
    assert [(view.swapped, view.is_swayed) for view in views] == [
        ("malignant", True),
        ("benign", False),
        ("", False),
    ]
    assert [bool(sample.swapped) for sample in gallery.samples] == [True, True, False]
    assert gallery.has_swaps


@pytest.mark.parametrize(
    "changes",
    [
        {"swapped": np.zeros((3, 1, 2, 2))},
        {"swapped_prediction": np.array(["a", "b", "c"])},
        {"swapped_prediction": np.array(1)},
        {"changed": np.array(True)},
        {"changed": np.array([True])},
    ],
)
def test_counterfactuals_that_do_not_fit_are_left_out(make_section, make_examples, changes):
    kept = swapped(make_examples(), **changes)
    gallery = make_gallery(make_section(("erm", 0.5, {"kept": kept})), most_bytes=PLENTY)
    assert len(gallery.samples) == 3
    assert not gallery.has_swaps


def test_samples_are_matched_by_their_index(make_section, make_examples):
    kept = make_examples()
    other = {name: column[::-1][:2] for name, column in kept.items()}
    section = make_section(("erm", 0.5, {"kept": kept}), ("r3", 0.8, {"kept": other}))
    samples = make_gallery(section, most_bytes=PLENTY).samples
    assert [sample.index for sample in samples] == [7, 14]
    assert all(sample.views[0].picture == sample.views[1].picture for sample in samples)


def test_a_seed_is_chosen_that_all_methods_have(make_section, make_examples):
    runs = [("erm", 0.5, {"seed": s, "kept": make_examples(num=s + 1)}) for s in (0, 1)]
    gallery = make_gallery(make_section(*runs, ("r3", 0.5, {"seed": 1})), most_bytes=PLENTY)
    assert len(gallery.samples) == 2
    assert gallery.notes == ()


def test_the_smallest_seed_is_shown(make_section, make_examples):
    runs = [("erm", 0.5, {"seed": s, "kept": make_examples(num=s + 1)}) for s in (2, 0, 1)]
    assert len(make_gallery(make_section(*runs), most_bytes=PLENTY).samples) == 1


def test_methods_without_pictures_are_named(make_section):
    section = make_section(("erm", 0.5, {}), ("r3", 0.8, {"kept": None}))
    gallery = make_gallery(section, most_bytes=PLENTY)
    assert gallery.notes == ("r3 kept no pictures of these samples.",)
    assert [len(sample.views) for sample in gallery.samples] == [1, 1, 1]


def test_nothing_in_common(make_section, make_examples):
    other = make_examples() | {"index": np.array([100, 101, 102])}
    section = make_section(("erm", 0.5, {}), ("r3", 0.8, {"kept": other}))
    gallery = make_gallery(section, most_bytes=PLENTY)
    assert gallery.samples == ()
    assert "different samples, so none can be compared" in gallery.notes[0]


def test_no_examples(make_section):
    gallery = make_gallery(make_section(("erm", 0.5, {"kept": None})), most_bytes=PLENTY)
    assert gallery.notes == ("The runs kept no examples, so there are no pictures.",)


def test_inputs_that_are_no_images(make_section, make_examples):
    section = make_section(("erm", 0.5, {"shape": (12,), "kept": make_examples((12,), mask=False)}))
    gallery = make_gallery(section, most_bytes=PLENTY)
    assert gallery.notes == (
        "The inputs are no images (their shape is 12), so there are no pictures.",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"attribution": np.zeros((3, 1, 2, 2))},
        {"y": np.zeros(2, dtype=int)},
        {"prediction": np.array(["a", "b", "c"])},
        {"index": np.array(3)},
    ],
)
def test_examples_that_do_not_fit_together_are_no_images(make_section, make_examples, changes):
    section = make_section(("erm", 0.5, {"kept": make_examples() | changes}))
    assert make_gallery(section, most_bytes=PLENTY).samples == ()


@pytest.mark.parametrize("mask", [None, np.zeros((3, 1, 4, 4)), np.zeros(2), np.array(["a"] * 3)])
def test_a_missing_mask_or_one_that_does_not_fit(make_section, make_examples, mask):
    kept = make_examples(mask=False) | ({} if mask is None else {"mask": mask})
    gallery = make_gallery(make_section(("erm", 0.5, {"kept": kept})), most_bytes=PLENTY)
    assert len(gallery.samples) == 3
    assert not gallery.has_masks
    assert gallery.samples[0].views[0].in_mask == ""


def test_classes_the_card_does_not_name(make_section, make_examples):
    kept = make_examples() | {"prediction": np.array([5, -1, 1])}
    gallery = make_gallery(make_section(("erm", 0.5, {"kept": kept})), most_bytes=PLENTY)
    assert [s.views[0].prediction for s in gallery.samples] == ["5", "-1", "malignant"]


def test_pictures_stop_when_they_are_large_enough(make_section):
    gallery = make_gallery(make_section(("erm", 0.5, {})), most_bytes=1)
    assert len(gallery.samples) == 1
    assert gallery.notes == ("Shown are 1 of 3 samples, to keep it small.",)

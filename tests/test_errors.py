import inspect
import re

import pytest

from rightreasons import errors
from rightreasons.errors import MissingExtraError, RightReasonsError, UnknownNameError


def own_classes():
    return {
        name: member
        for name, member in vars(errors).items()
        if inspect.isclass(member) and member.__module__ == errors.__name__
    }


def test_the_tree_of_the_docstring_is_the_tree():
    drawn = dict(re.findall(r"[├└]─ (\w+) .*\((\w+)\)", errors.__doc__))
    real = {
        name: kind.__bases__[1].__name__
        for name, kind in own_classes().items()
        if kind is not RightReasonsError
    }
    assert drawn == real


def test_everything_is_a_right_reasons_error_and_exported():
    assert sorted(own_classes()) == errors.__all__
    for kind in own_classes().values():
        assert issubclass(kind, RightReasonsError)
        assert inspect.getdoc(kind)


def test_a_missing_extra_says_what_to_run():
    error = MissingExtraError("Writing for TensorBoard", "tensorboard")
    assert str(error) == (
        'Writing for TensorBoard needs an extra: run `pip install "rightreasons[tensorboard]"`.'
    )
    assert error.extra == "tensorboard"
    with pytest.raises(ImportError, match="needs an extra"):
        raise error


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("r33", ["r3"]),
        ("group-dro", ["group_dro"]),
        ("groupdro", ["group_dro"]),
        ("xyz", []),
    ],
)
def test_an_unknown_name_offers_the_nearest(name, nearest):
    error = UnknownNameError("recipe", name, ["r3", "group_dro", "erm"])
    assert error.nearest == nearest
    message = str(error)
    assert message.startswith(f"Expected a recipe, but got {name!r}.")
    assert message.endswith("Known: erm, group_dro, r3.")
    assert ("Did you mean" in message) is bool(nearest)


def test_several_near_names_are_joined():
    message = str(UnknownNameError("model", "resnet", ["resnet18", "resnet34", "mlp"]))
    assert "Did you mean 'resnet34' or 'resnet18'?" in message

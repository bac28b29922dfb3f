import pytest

from rightreasons.cli.listing import KINDS, list_names
from rightreasons.errors import UnknownNameError


def test_lists_one_kind_or_all():
    assert set(list_names()) == set(KINDS)
    assert "r3" in list_names("recipes")["recipes"]


def test_every_line_is_a_sentence_on_one_line():
    for lines in list_names().values():
        for name, line in lines.items():
            assert line and "\n" not in line, name
            assert len(line) <= 90, name


def test_unknown_kind():
    with pytest.raises(UnknownNameError, match="Did you mean 'models'"):
        list_names("model")

import csv

import pytest
import torch
from tests.reference import annotators as slow

from rightreasons.annotators import Suggestion, next_to_annotate
from rightreasons.annotators.next_image import spread_order, suggestion_rows, write_rows
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidSettingError


def test_the_order_is_the_slow_twin():
    generator = torch.Generator().manual_seed(0)
    uncertainty, features = (
        torch.rand(12, generator=generator),
        torch.rand(12, 3, generator=generator),
    )
    twin = slow.spread_order(uncertainty.tolist(), features.tolist(), 12)
    assert spread_order(uncertainty, features, num=12) == twin
    assert spread_order(uncertainty, features, num=5) == twin[:5]
    assert spread_order(uncertainty, features, num=50) == twin


def test_copies_come_last():
    features = torch.tensor([[0.0, 0], [0, 0], [1, 0], [0, 1]])
    assert spread_order(torch.tensor([0.9, 0.8, 0.1, 0.2]), features, num=4) == [0, 3, 2, 1]


def test_the_most_uncertain_first_and_no_two_alike(fitted):
    annotator, data = fitted
    x = data.batch.x.clone()
    x[23] = x[10:].index_select(0, annotator.uncertainty(x[10:23]).argmax()[None])[0]
    twice = InMemory(data.batch.replace(x=x))
    found = next_to_annotate(twice, annotator, num=14)
    places = [one.place for one in found]
    assert sorted(places) == list(range(10, 24))  # those annotated by hand are left out
    assert found[0].uncertainty == pytest.approx(max(one.uncertainty for one in found))
    assert {places[0], places[-1]} == {23, 10 + int(annotator.uncertainty(x[10:23]).argmax())}
    assert next_to_annotate(twice, annotator, num=3) == found[:3]


def test_nothing_left_to_annotate(fitted, make_squares):
    with pytest.raises(InvalidSettingError, match="but all 24 of 'data' are annotated"):
        next_to_annotate(make_squares(), fitted[0])
    with pytest.raises(InvalidSettingError, match="Expected `num` to be a whole number from 1"):
        next_to_annotate(fitted[1], fitted[0], num=0)


def test_rows_are_written_as_csv(make_squares, tmp_path):
    rows = suggestion_rows(make_squares(), [Suggestion(7, 0.5), Suggestion(2, 0.25)])
    path = tmp_path / "new" / "next.csv"
    write_rows(path, rows)
    read = list(csv.DictReader(path.read_text().splitlines()))
    assert read == [
        {"index": "7", "file": "", "uncertainty": "0.5"},
        {"index": "2", "file": "", "uncertainty": "0.25"},
    ]

import torch

from rightreasons.attacks import Attacked
from rightreasons.attacks.output_attack import Record

X = torch.zeros(3, 1)
Y = torch.tensor([0, 0, 1])


def test_a_record_keeps_the_smallest_margin_and_what_fools():
    record = Record(X)
    rows = torch.arange(3)
    fooled = record.add(rows, X + 1, torch.tensor([[3.0, 1.0], [3.0, 1.0], [3.0, 1.0]]), Y)
    assert fooled.tolist() == [False, False, True]
    rows = rows[~fooled]
    fooled = record.add(rows, X[rows] + 2, torch.tensor([[4.0, 1.0], [3.0, 2.0]]), Y[rows])
    assert not fooled.any()
    found = record.result()
    assert found.x.flatten().tolist() == [1, 2, 1]
    assert found.margin.tolist() == [2, 1, -2]
    assert found.fooled.tolist() == [False, False, True]


def test_ties_fool_only_if_the_prediction_changes():
    record = Record(X)
    fooled = record.add(torch.arange(3), X + 1, torch.ones(3, 2), Y)
    assert fooled.tolist() == [False, False, True]  # the first of equals is predicted


def test_no_number_fools_whatever_the_label():
    record = Record(X)
    fooled = record.add(torch.arange(3), X + 1, torch.full((3, 2), torch.nan), Y)
    assert fooled.all() and record.result().margin.isnan().all()


def test_the_stronger_of_two_is_taken_sample_by_sample():
    def attacked(value, fooled, margin):
        n = len(margin)
        return Attacked(
            torch.full((n, 1), value), torch.tensor(fooled), torch.tensor(margin).float()
        )

    first = attacked(1.0, [False, True, False], [2, -1, 3])
    second = attacked(2.0, [False, True], [4, -2])
    both = first.stronger(torch.tensor([0, 2]), second)
    assert both.x.flatten().tolist() == [1, 1, 2]
    assert both.fooled.tolist() == [False, True, True]
    assert both.margin.tolist() == [2, -1, -2]
    assert first.x.flatten().tolist() == [1, 1, 1]

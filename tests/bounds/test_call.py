import operator

import torch
from torch.nn import functional

from rightreasons.bounds.operation import Call, Constant, RefusedCall, Variable, operation_name


def test_names_of_functions_and_methods():
    assert operation_name(torch.relu) == operation_name(functional.relu) == "relu"
    assert operation_name("view") == "view"
    assert operation_name("add_") == operation_name(operator.iadd) == "add"
    assert operation_name(operator.itruediv) == "truediv"
    assert operation_name(functional.max_pool2d) == "max_pool2d"


def test_functions_of_others_have_none():
    def relu(x):
        return x

    assert operation_name(relu) is None
    assert operation_name(getattr) is None


def test_arguments_by_place_or_name():
    x = Variable(1, (2, 3))
    call = Call("mean", (x, 1), {"keepdim": True}, (2, 1))
    assert call.argument(1, "dim") == 1
    assert call.argument(2, "keepdim", False) is True
    assert call.argument(3, "dtype", "none") == "none"
    assert call.input == (2, 3)
    for args, kwargs in (((x, 0, 2, 1), {}), ((x, (0, 2, 1)), {}), ((x,), {"dims": (0, 2, 1)})):
        assert Call("permute", args, kwargs, ()).arguments(1, "dims") == (0, 2, 1)


def test_constants_are_told_apart_by_their_names():
    assert Constant("a", (1,)) != Constant("b", (1,))
    assert issubclass(RefusedCall, Exception)

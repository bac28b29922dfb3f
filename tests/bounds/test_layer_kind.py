from rightreasons.bounds import layer_kinds
from rightreasons.bounds.layer_kind import KIND_FILES


def test_every_kind_of_the_list_is_known():
    asked_for = (
        *("Linear", "Conv1d", "Conv2d", "ConvTranspose2d", "BatchNorm1d", "BatchNorm2d"),
        *("LayerNorm", "GroupNorm", "AvgPool2d", "MaxPool2d", "AdaptiveAvgPool2d", "Multiply"),
        *("ReLU", "LeakyReLU", "Softplus", "Sigmoid", "Tanh", "ELU", "GELU", "SiLU"),
    )
    assert set(asked_for) <= set(layer_kinds())
    assert layer_kinds() == sorted(layer_kinds())


def test_files_are_named_once():
    names = [file.__name__ for file in KIND_FILES]
    assert len(names) == len(set(names)) == 10

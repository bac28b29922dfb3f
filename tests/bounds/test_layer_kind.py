from rightreasons.bounds import layer_kinds


def test_every_kind_of_the_list_is_known():
    asked_for = (
        *("Linear", "Conv1d", "Conv2d", "ConvTranspose2d", "BatchNorm1d", "BatchNorm2d"),
        *("LayerNorm", "GroupNorm", "AvgPool2d", "MaxPool2d", "AdaptiveAvgPool2d", "Multiply"),
        *("ReLU", "LeakyReLU", "Softplus", "Sigmoid", "Tanh", "ELU", "GELU", "SiLU"),
    )
    assert set(asked_for) <= set(layer_kinds())
    assert layer_kinds() == sorted(layer_kinds())

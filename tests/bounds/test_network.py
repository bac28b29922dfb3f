import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import Box, Network, Node, network_of
from rightreasons.bounds.combination import Add


def test_forward_gives_the_boxes_of_all_nodes(small_net, listed, small_box):
    boxes = network_of(small_net, small_box.center).forward(small_box)
    assert len(boxes) == 6 and boxes[0] is small_box
    for sample in range(3):
        stages = slow.forward(listed, slow.intervals(small_box, sample))
        for number, stage in zip((1, 3, 5), stages, strict=True):
            found = torch.tensor(slow.intervals(boxes[number], sample))
            torch.testing.assert_close(found, torch.tensor(stage))


def test_gradients_of_several_uses_add_up():
    layer = nn.Linear(2, 2).double()
    nodes = (
        Node("a", layer, (0,)),
        Node("b", Add(), (1, 0)),
        Node("c", Add(-1.0), (2, 0)),
        Node("d", Add(), (3, 3)),
    )
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    value = layer(x) + x - x
    (expected,) = torch.autograd.grad((2 * value).sum(), x)
    network = Network(nodes)
    for outward in (False, True):
        point = Box(x.detach(), torch.zeros(3, 2, dtype=torch.float64))
        boxes = network.forward(point, outward=outward)
        gradients = network.backward(boxes, Box.exact(torch.ones_like(x)), outward=outward)
        torch.testing.assert_close(gradients[0].center, expected)
        assert len(gradients) == 5
        assert gradients[0].is_exact is (not outward)
        assert bool((gradients[0].lower <= expected).all())


def test_a_network_without_layers_hands_on():
    box = Box(torch.ones(1, 2), torch.ones(1, 2))
    network = Network(())
    assert network.forward(box) == [box]
    assert network.backward([box], box)[0] is box

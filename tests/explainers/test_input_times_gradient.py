import torch
from tests.reference import explainers as twins

from rightreasons.explainers import InputTimesGradient


def test_equals_its_slow_twin(net, x, y):
    attribution = InputTimesGradient()(net, x, y)
    for n in range(len(x)):
        expected = x[n] * twins.input_gradient(net, x[n], int(y[n]))
        torch.testing.assert_close(attribution[n], expected, rtol=1e-6, atol=1e-8)


def test_sums_to_the_logit_without_biases(x, y):
    net = twins.mlp(torch.nn.ReLU)
    for module in net.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.zeros_(module.bias)
    sums = InputTimesGradient()(net, x, y).flatten(1).sum(dim=1)
    torch.testing.assert_close(sums, net(x).gather(1, y[:, None])[:, 0])

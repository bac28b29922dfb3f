"""Small pictures with a masked tag, for tests of what is said about models that read it."""

import torch

import rightreasons as rr

SIDE = 12


def pictures(
    size=400,
    *,
    seed=0,
    core=0.5,
    tag=1.0,
    noise=1.0,
    tagged=(0, 1),
    hidden=0.0,
    broken=0.0,
    masks="tag",
    strength=1.0,
):
    """Two classes: a square in the middle (core), a masked tag in a corner, an unmasked stripe.

    Args:
        core: Brightness that the middle of class 1 gains.
        tag: Brightness that the tags of class 1 gain.
        noise: How much tags of one class differ.
        tagged: Classes that have tags, and so masks.
        hidden: Brightness of the stripe at the bottom of class 1, which no mask covers.
        broken: Share of the samples in which the stripe is that of the other class.
        masks: What the masks cover: the tag, everything but the tag, or the middle.
        strength: Value of a mask.
    """
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % 2
    x = 0.3 * torch.rand(size, 1, SIDE, SIDE, generator=generator)
    x[:, :, 4:8, 4:8] += core * y[:, None, None, None]
    wrong = torch.rand(size, generator=generator) < broken
    x[:, :, 10:, 4:] += hidden * (y ^ wrong.long())[:, None, None, None]
    mask = torch.zeros(size, 1, SIDE, SIDE)
    for row, label in enumerate(y.tolist()):
        if label in tagged:
            x[row, :, :3, :3] = tag * label + noise * x[row, :, :3, :3]
            mask[row, :, :3, :3] = strength
    if masks == "inverted":
        mask = 1 - mask
    elif masks == "middle":
        mask = torch.zeros_like(mask)
        mask[:, :, 2:10, 2:10] = 1
    return rr.Batch(x=x, y=y, mask=mask, group=2 * y + wrong.long())

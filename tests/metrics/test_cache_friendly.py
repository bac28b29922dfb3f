import torch

from rightreasons.metrics.cache_friendly import COMFORTABLE_ROWS, comfortable_parts, laid_out


def test_images_are_laid_out_with_channels_last_and_stay_the_same():
    x = torch.rand(2, 3, 4, 5)
    assert torch.equal(laid_out(x), x)
    assert laid_out(x).stride() == (60, 1, 15, 3)
    vectors = torch.rand(2, 3)
    assert laid_out(vectors) is vectors


def test_parts_are_small_and_all_there():
    x = torch.rand(2 * COMFORTABLE_ROWS + 1, 3, 4, 5)
    parts = comfortable_parts(x)
    assert [len(part) for part in parts] == [COMFORTABLE_ROWS, COMFORTABLE_ROWS, 1]
    assert torch.equal(torch.cat(parts), x)
    assert parts[0].is_contiguous(memory_format=torch.channels_last)

import pytest
import torch

from rightreasons.attacks import frame_map
from rightreasons.errors import InvalidSettingError


def test_the_paper_s_frame_is_five_of_thirty_two_pixels_thick():
    frame = frame_map(32, 32)
    assert frame.shape == (1, 1, 32, 32)
    assert frame[..., 5:-5, 5:-5].sum() == 0
    assert frame.sum() == 32**2 - 22**2


def test_small_and_oblong_images_have_one_too():
    expected = torch.ones(4, 6)
    expected[1:-1, 1:-1] = 0
    assert torch.equal(frame_map(4, 6)[0, 0], expected)


def test_a_border_that_is_no_share():
    with pytest.raises(InvalidSettingError, match="Expected `border` to be a number from 0 to"):
        frame_map(8, 8, border=5)

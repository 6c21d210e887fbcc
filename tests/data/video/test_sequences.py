"""Sequences of frames: their pixels, and which are held out."""

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.ExifTags import Base

from niso.data.video.sequences import Sequence, hold_out
from tests.poses import random_poses


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.01, 1), (0.2, 4), (0.5, 10)])
def test_a_share_of_what_can_be_used_is_held_out(share, count):
    names = [f"clip{number}" for number in range(100)]
    usable = names[::5]
    held_out = hold_out(names, share, 0, [*usable, "another"])
    assert len(held_out) == count and held_out <= set(usable)
    assert held_out <= hold_out(names, 0.9, 0, usable)  # in one order
    assert hold_out(names[:1], share, 0, usable) == set()


@pytest.mark.parametrize("posed", [False, True])
@pytest.mark.parametrize(("orientation", "right"), [(1, (1, 0)), (6, (0, 1)), (3, (-1, 0)), (8, (0, -1))])
def test_frames_are_turned_as_viewers_show_them_and_their_cameras_with_them(tmp_path, posed, orientation, right):
    """What is at the right of the pixels as stored, which are what the cameras are of, is then at another side."""
    image = Image.new("RGB", (16, 16))
    image.paste((255, 255, 255), (12, 6, 16, 10))
    exif = Image.Exif()
    exif[Base.Orientation] = orientation
    image.save(tmp_path / "0.png", exif=exif)
    camera = random_poses(1, dtype=torch.float64)[0].numpy()
    (frame,) = Sequence("a", [tmp_path / "0.png"], [0], camera[None] if posed else None).frames(16)
    x, y = (int(8 + 6 * side) for side in right)
    assert np.asarray(frame.image)[min(y, 15), min(x, 15)].tolist() == [255, 255, 255]
    if posed:
        point = camera @ (0.75, 0, 1, 1)
        np.testing.assert_allclose(np.linalg.inv(frame.pose) @ point, (*(0.75 * np.array(right)), 1, 1), atol=1e-9)


def test_no_camera_sees_a_mirror_image(tmp_path):
    exif = Image.Exif()
    exif[Base.Orientation] = 2
    Image.new("RGB", (16, 16)).save(tmp_path / "0.png", exif=exif)
    (frame,) = Sequence("a", [tmp_path / "0.png"], [0], np.eye(4)[None]).frames(16)
    assert frame.image is None and "mirror image, which no camera sees: save it upright" in frame.problem
    (frame,) = Sequence("a", [tmp_path / "0.png"], [0]).frames(16)
    assert frame.image is not None

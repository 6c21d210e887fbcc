"""Sequences of frames: the order of their names, their pixels, and which are held out."""

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import Base

from niso.data.video.sequences import Sequence, hold_out, natural


def test_names_are_sorted_by_their_numbers_of_any_length_and_script():
    names = ["frame²", "frame10", "frame2", "frame007", f"frame{'9' * 5000}", "frame", "frame1b"]
    assert sorted(names, key=natural) == ["frame", "frame1b", "frame2", "frame007", "frame10", names[4], "frame²"]


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.01, 1), (0.2, 4), (0.5, 10)])
def test_a_share_of_what_can_be_used_is_held_out(share, count):
    names = [f"clip{number}" for number in range(100)]
    usable = names[::5]
    held_out = hold_out(names, share, 0, [*usable, "another"])
    assert len(held_out) == count and held_out <= set(usable)
    assert held_out <= hold_out(names, 0.9, 0, usable)  # in one order
    assert hold_out(names[:1], share, 0, usable) == set()


@pytest.mark.parametrize("posed", [False, True])
def test_frames_with_cameras_stay_as_their_pixels_are_stored(tmp_path, posed):
    """Which is what the cameras are of; others are turned as viewers show them."""
    image = Image.fromarray(np.repeat(np.array([[0, 255], [0, 255]], np.uint8), 8).reshape(2, 16).repeat(8, 0))
    exif = Image.Exif()
    exif[Base.Orientation] = 6  # a quarter turn to the right
    image.save(tmp_path / "0.png", exif=exif)
    (frame,) = Sequence("a", [tmp_path / "0.png"], [0], np.eye(4)[None] if posed else None).frames(16)
    pixels = np.asarray(frame.image)[..., 0]
    assert (pixels.T if not posed else pixels)[8, [2, 13]].tolist() == [0, 255]

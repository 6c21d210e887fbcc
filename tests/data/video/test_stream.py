"""Frames of one video, from a file, a folder of images, or a prepared folder."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from niso.data.video.files import Video
from niso.data.video.posed_folders import frame_folder
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.prepared import open_frames
from niso.data.video.stream import open_stream
from niso.errors import InputError


def grey(frame) -> int:
    return round(float(frame.image[:, 3:5, 3:5].float().mean()), -1)


@pytest.fixture
def sources(write_video, tmp_path):
    """The same twelve frames in all three ways."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(12):
        Image.new("RGB", (40, 30), (20 * number,) * 3).save(folder / f"frame{number}.png")  # frame10 before frame2
    video = write_video(tmp_path / "walk.mp4")
    prepare([Video("walk", video), frame_folder(folder)], tmp_path / "out", preparation=Preparation(16, 3))
    return {"walk": video, "frames": folder, "prepared": tmp_path / "out"}


@pytest.mark.parametrize("every", [1, 5])
def test_frames_and_times(sources, every):
    for name, unit in (("walk", 0.1), ("frames", 1.0), ("prepared", 1.0)):
        stream = open_stream(sources[name], 8, every, "walk" if name == "prepared" else None)
        assert stream.name == ("walk" if name == "prepared" else name)
        frames = list(stream.frames)
        numbers = list(range(0, 12, every))
        assert stream.total == len(frames) == len(numbers)
        assert [frame.time for frame in frames] == pytest.approx([unit * number for number in numbers])
        assert [grey(frame) for frame in frames] == [20 * number for number in numbers]
        assert all(frame.image.shape == (3, 8, 8) and frame.image.dtype == torch.uint8 for frame in frames)


def test_prepared_frames_of_the_asked_size_are_not_changed(sources):
    place = (prepared := open_frames(sources["prepared"])).names.index("frames")
    for number, frame in enumerate(open_stream(sources["prepared"], 16, 1, "frames").frames):
        assert torch.equal(frame.image, prepared.image(place, number))


def test_frames_of_another_size_end_the_stream(sources):
    Image.new("RGB", (50, 30)).save(sources["frames"] / "frame4.png")
    frames = open_stream(sources["frames"], 8).frames
    assert [grey(next(frames)) for _ in range(4)] == [0, 20, 40, 60]
    with pytest.raises(InputError, match=r"frames of frames are of mixed sizes .40×30 and 50×30 pixels"):
        next(frames)

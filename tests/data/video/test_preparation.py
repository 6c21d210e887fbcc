"""Video files as they are prepared; `test_frames.py` has all that is about images."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from niso.data.video import prepared as frames
from niso.data.video.files import Video
from niso.data.video.preparation import Preparation, prepare
from niso.errors import InputError

SMALL = Preparation(size=16, min_frames=3)


def middle(prepared, sequence=0):
    """Values of the middles of frames, to the nearest ten: codecs are not exact."""
    images = prepared.clip(sequence).images[..., 7:9, 7:9].float()
    return images.mean((1, 2, 3)).div(10).round().mul(10).tolist()


def test_video_files(write_video, tmp_path):
    path = write_video(tmp_path / "walk.mp4")
    videos = [Video("walk", path), Video("cup/thin", path, every=3)]
    assert prepare(videos, tmp_path / "out", preparation=SMALL) == (2, 0, {}, {})
    prepared = frames.open_frames(tmp_path / "out")
    assert prepared.names == ["cup/thin", "walk"] and prepared.splits == ["train", "train"]
    assert middle(prepared, 0) == [0, 60, 120, 180] and middle(prepared, 1) == [20 * number for number in range(12)]
    assert prepared.poses(1).isnan().all()
    assert prepare(videos, tmp_path / "out", preparation=SMALL)[:2] == (0, 2)
    videos[1] = replace(videos[1], every=2)
    write_video(path.with_name("other.mp4"), 9).replace(path)
    assert prepare(videos, tmp_path / "out", preparation=SMALL)[:2] == (2, 0)
    assert frames.open_frames(tmp_path / "out").lengths == [5, 9]


def test_truncated_video_files(write_video, tmp_path):
    cut, headless = (write_video(tmp_path / f"{name}.mp4", faststart=name == "cut") for name in ("cut", "headless"))
    for path in (cut, headless):
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    outcome = prepare([Video(path.stem, path) for path in (cut, headless)], tmp_path / "out", preparation=SMALL)
    assert outcome.refused["headless"].startswith("headless.mp4 cannot be decoded")
    prepared = frames.open_frames(tmp_path / "out")
    assert prepared.names == ["cut"] and 3 <= prepared.lengths[0] < 12
    assert middle(prepared) == [20 * number for number in range(prepared.lengths[0])]
    assert outcome.notes["cut"].startswith("cut.mp4 is truncated")
    assert "can be decoded" in outcome.notes["cut"]


def test_without_a_decoder_the_reason_is_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "walk.mp4").touch()
    with pytest.raises(InputError, match=r"\(walk: video files need PyAV: pip install"):
        prepare([Video("walk", tmp_path / "walk.mp4")], tmp_path / "out", preparation=SMALL)

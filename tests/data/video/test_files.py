"""Video files: order, time, rotation, and files that are truncated or no video."""

from __future__ import annotations

import struct
import sys
import wave
from itertools import islice

import numpy as np
import pytest

from niso.data.video.files import Video, count_frames, read_video
from niso.errors import InputError


def grey(image) -> float:
    """The middle of an image, to the nearest ten: codecs are not exact."""
    return round(float(np.asarray(image)[12:18, 16:24].mean()), -1)


def decoded(path, every=1):
    """Frames, and why there were no more."""
    frames = []
    try:
        frames.extend(frame for frame in read_video(path, every))
    except InputError as error:
        return frames, str(error)
    return frames, ""


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi", "mov"])
def test_frames_come_in_order_with_their_times(write_video, tmp_path, suffix):
    path = write_video(tmp_path / f"walk.{suffix}")
    frames, problem = decoded(path)
    assert problem == "" and count_frames(path) == 12
    assert [grey(image) for _, image in frames] == [20 * number for number in range(12)]
    assert [seconds for seconds, _ in frames] == pytest.approx([0.1 * number for number in range(12)], abs=1e-3)
    assert frames[0][1].size == (40, 30) and frames[0][1].mode == "RGB"


@pytest.mark.parametrize("every", [2, 3, 12, 20])
def test_every_nth_frame(write_video, tmp_path, every):
    frames, _ = decoded(write_video(tmp_path / "walk.mp4"), every)
    assert [grey(image) for _, image in frames] == [20 * number for number in range(0, 12, every)]
    assert frames[-1][0] == pytest.approx(0.1 * (11 // every * every))


def test_frames_are_decoded_when_they_are_asked_for(write_video, tmp_path):
    path = write_video(tmp_path / "walk.mp4", faststart=True)
    path.write_bytes(path.read_bytes()[:-300])
    first = list(islice(read_video(path), 3))  # the end, which is damaged, is not reached
    assert [grey(image) for _, image in first] == [0, 20, 40]


@pytest.mark.parametrize(("rotation", "corner"), [(90, (5, 35)), (180, (35, 25)), (270, (25, 5)), (-90, (25, 5))])
def test_frames_are_upright(write_video, tmp_path, rotation, corner):
    """The corner is found where a player shows it: the display matrix turns counter-clockwise."""
    ((_, image), *_), _ = decoded(write_video(tmp_path / "turned.mp4", rotation=rotation))
    assert image.size == ((30, 40) if rotation % 180 else (40, 30))
    red, green, blue = image.getpixel(corner)
    assert red > 150 and max(green, blue) < 100


MATRICES = [(-1, 0, 0, 1), (1, 0, 0, -1), (0, 1, 1, 0), (0, -1, -1, 0), (0, 1, -1, 0), (0, -1, 1, 0), (-1, 0, 0, -1)]


@pytest.mark.parametrize("matrix", MATRICES)
def test_frames_are_shown_by_the_display_matrix(write_video, tmp_path, matrix):
    """Which takes (x, y) to (ax + cy, bx + dy): turned, or mirrored. The red corner is the upper left one."""
    path = write_video(tmp_path / "walk.mp4")
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 44
    a, b, c, d = (entry << 16 for entry in matrix)
    content[place : place + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    ((_, image), *_), problem = decoded(path)
    assert problem == "" and image.size == ((40, 30) if matrix[0] else (30, 40))
    x, y = (-matrix[0] - matrix[2], -matrix[1] - matrix[3])  # the upper left corner is at (−1, −1)
    corner = (5 if x < 0 else image.width - 5, 5 if y < 0 else image.height - 5)
    red, green, blue = image.getpixel(corner)
    assert red > 150 and max(green, blue) < 100


def test_pixels_become_square(write_video, tmp_path):
    frames, problem = decoded(write_video(tmp_path / "wide.mp4", aspect=2))
    assert problem == "" and frames[0][1].size == (80, 30)
    assert [grey(image.resize((40, 30))) for _, image in frames[:3]] == [0, 20, 40]


@pytest.mark.parametrize("share", [0.6, 0.8, 0.99])  # of a cut in the first bytes of a frame, decoders say nothing
def test_what_can_be_decoded_of_a_truncated_video_comes_first(write_video, tmp_path, share):
    path = write_video(tmp_path / "cut.mp4", faststart=True)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    frames, problem = decoded(path)
    assert 0 < len(frames) < 12
    assert [grey(image) for _, image in frames] == [20 * number for number in range(len(frames))]
    assert "cut.mp4 is" in problem and f"{len(frames)} " in problem and "can be decoded" in problem


def test_a_file_that_ends_without_an_error(write_video, tmp_path):
    path = write_video(tmp_path / "cut.mkv", count=40)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    frames, problem = decoded(path)
    assert 0 < len(frames) < 40
    assert "cut.mkv is" in problem and "can be decoded" in problem


@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_times_may_begin_late(write_video, tmp_path, suffix):
    path = write_video(tmp_path / f"late.{suffix}", count=40, start=100, faststart=suffix == "mp4")
    frames, problem = decoded(path)
    assert problem == "" and len(frames) == 40 and count_frames(path) == 40 and frames[0][0] == pytest.approx(100)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    frames, problem = decoded(path)
    assert 0 < len(frames) < 40 and "late" in problem and "can be decoded" in problem


@pytest.mark.parametrize("empty, counted", [(range(3, 9), 6), (range(6, 12), 6)])
def test_frames_of_an_avi_may_have_no_picture(tmp_path, empty, counted):
    """Where the one before stays: at the end they look like frames that are cut off."""
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "walk.avi"), "w") as file:
        stream = file.add_stream("mjpeg", rate=10)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuvj420p"
        for number in range(12):
            frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), 20 * number, np.uint8))
            frame.pts = number
            for packet in stream.encode(frame):
                nothing = av.Packet(b"")
                nothing.stream, nothing.time_base, nothing.pts, nothing.dts = stream, packet.time_base, number, number
                file.mux(nothing if number in empty else packet)
    frames, problem = decoded(tmp_path / "walk.avi")
    assert len(frames) == counted
    at_the_end = "walk.avi is truncated, or ends in empty frames: 6 of its 12 frames can be decoded"
    assert problem == (at_the_end if 11 in empty else "")


def test_transparent_frames_are_seen_over_white_as_pictures_are(tmp_path):
    av = pytest.importorskip("av")
    pixels = np.full((16, 16, 4), (200, 0, 0, 255), np.uint8)
    pixels[:, 8:, 3] = 0
    with av.open(str(tmp_path / "cut.mov"), "w") as file:
        stream = file.add_stream("png", rate=10)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "rgba"
        file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgba")))
        file.mux(stream.encode())
    (frame,) = Video("cut", tmp_path / "cut.mov").frames(16)
    assert frame.image.getpixel((2, 8)) == (200, 0, 0) and frame.image.getpixel((13, 8)) == (255, 255, 255)


def test_a_cover_is_no_film(tmp_path):
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "film.mp4"), "w") as file:
        streams = [file.add_stream(codec, rate=10) for codec in ("mjpeg", "mpeg4")]
        for stream, side, pixels in zip(streams, (16, 32), ("yuvj420p", "yuv420p"), strict=True):
            stream.width, stream.height, stream.pix_fmt = side, side, pixels
        for stream, count in zip(streams, (1, 4), strict=True):
            for number in range(count):
                frame = av.VideoFrame.from_ndarray(np.zeros((stream.height, stream.width, 3), np.uint8), "rgb24")
                frame.pts = number
                file.mux(stream.encode(frame))
            file.mux(stream.encode())
    assert [image.size for _, image in read_video(tmp_path / "film.mp4")] == 4 * [(32, 32)]
    assert count_frames(tmp_path / "film.mp4") == 4


def test_words_of_a_file_may_be_no_utf8(write_video, tmp_path):
    path = write_video(tmp_path / "walk.avi")
    title = b"Lavf"  # who wrote it
    assert title in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(title, b"L\xffvf"))
    frames, problem = decoded(path)
    assert len(frames) == count_frames(path) == 12 and problem == ""


def test_damage_in_the_middle(write_video, tmp_path):
    path = write_video(tmp_path / "hurt.mp4", count=40, faststart=True)
    content = bytearray(path.read_bytes())
    middle = len(content) * 2 // 3
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    frames, problem = decoded(path)
    assert 0 < len(frames) < 40 and f"{len(frames)} frames can be decoded" in problem
    assert [grey(image) for _, image in frames[:13]] == [min(20 * number, 240) for number in range(13)][: len(frames)]


def test_files_that_are_no_video(write_video, tmp_path):
    (tmp_path / "text.mp4").write_text("walk " * 100)
    (tmp_path / "empty.mp4").touch()
    whole = write_video(tmp_path / "walk.mp4").read_bytes()
    (tmp_path / "headless.mp4").write_bytes(whole[: len(whole) // 2])  # its index was at the end
    with wave.open(str(tmp_path / "sound.avi"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(16_000))
    for name in ("text", "empty", "headless"):
        with pytest.raises(InputError, match=rf"{name}.mp4 cannot be decoded \(.*\): give a video, or save it again"):
            next(read_video(tmp_path / f"{name}.mp4"))
        with pytest.raises(InputError, match=rf"{name}.mp4 cannot be decoded \(.*\): give a video, or save it again"):
            count_frames(tmp_path / f"{name}.mp4")
    with pytest.raises(InputError, match=r"sound\.avi holds no video"):
        next(read_video(tmp_path / "sound.avi"))
    assert count_frames(tmp_path / "sound.avi") == 0
    with pytest.raises(InputError, match=r"nowhere\.mp4 is missing"):
        next(read_video(tmp_path / "nowhere.mp4"))


def test_without_the_extra_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    for read in (lambda path: next(read_video(path)), count_frames):
        with pytest.raises(InputError, match=r"need PyAV: pip install 'av>=14'"):
            read(tmp_path / "walk.mp4")


def test_arguments_are_checked(tmp_path):
    with pytest.raises(ValueError, match="every must be at least 1"):
        next(read_video(tmp_path / "walk.mp4", 0))
    with pytest.raises(InputError, match="cannot be a file's"):
        Video("../walk", tmp_path / "walk.mp4")

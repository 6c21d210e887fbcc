"""What is said of folders: pictures that are passed over, loose ones, and folders that look like pairs."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from niso.data.pairs.clips import ClipReader
from niso.data.pairs.find import find_reader
from niso.data.pairs.observations import read_observations
from niso.data.pairs.paired import PairedReader
from niso.data.pairs.pictures import PictureReader
from niso.data.pairs.reading import Reading
from niso.data.pairs.split import split
from niso.data.pictures import about_pictures
from niso.data.squares import read_square
from niso.data.video import stream
from niso.errors import InputError

TURNED = Reading(transform="rotation")


def write(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 100, np.uint8)).save(path)


def test_pictures_that_are_not_read_are_counted(tmp_path):
    write(*(tmp_path / "all" / f"{number}.png" for number in range(16)))
    for name in ("1.HEIC", "2.heic", "3.avif", "notes.txt"):
        (tmp_path / "all" / name).touch()
    note = PictureReader.read(tmp_path / "all", TURNED, 8).note
    assert note == "pictures of other formats are passed over (1 .avif, 2 .heic): save them as .png or .jpg"
    (tmp_path / "clips").mkdir()
    (tmp_path / "all").rename(tmp_path / "clips" / "walk")
    assert ClipReader.read(tmp_path / "clips", Reading(), 8).note == note
    write(*(tmp_path / "pairs" / side / f"{number}.png" for side in "ab" for number in range(16)))
    (tmp_path / "pairs" / "a" / "0.tga").touch()
    assert "(1 .tga)" in PairedReader.read(tmp_path / "pairs", Reading(), 8).note


def test_that_grey_of_16_bits_is_rounded_is_said(tmp_path):
    write(*(tmp_path / "a" / f"{number}.png" for number in range(16)))
    assert not about_pictures(tmp_path)
    depth = np.linspace(0, 9_000, 64, dtype=np.uint16).reshape(8, 8)  # in millimetres
    for folder in ("b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(16):
            Image.fromarray(depth).save(tmp_path / folder / f"{number}.png")
    words = "grey of 16 bits is read in steps of 256: where values count, as of depth, give arrays (n, 1, H, W)"
    assert about_pictures(tmp_path / "b") == words
    assert PairedReader.read(tmp_path, Reading(), 8).note == words


def test_a_trained_model_is_told_of_no_less(tmp_path, capsys):
    write(*(tmp_path / "all" / f"{number}.png" for number in range(2)))
    (tmp_path / "all" / "x.heic").touch()

    def said(path):
        read_observations(path, (3, 8, 8), of_bytes=True)
        return capsys.readouterr().err

    other = "pictures of other formats are passed over (1 .heic): save them as .png or .jpg"
    assert said(tmp_path / "all") == f"! {tmp_path / 'all'}: {other}\n"
    assert not said(tmp_path / "all" / "0.png")
    Image.fromarray(np.linspace(0, 9_000, 64, dtype=np.uint16).reshape(8, 8)).save(tmp_path / "all" / "grey.png")
    words = "grey of 16 bits is read in steps of 256"
    assert said(tmp_path / "all").startswith(f"! {tmp_path / 'all'}: {other}; {words}")
    assert said(tmp_path / "all" / "grey.png").startswith(f"! {tmp_path / 'all' / 'grey.png'}: {words}")


def test_frames_too_dark_for_16_bits_do_not_end_their_clips(tmp_path):
    for number in range(16):
        (tmp_path / f"cells{number % 2}").mkdir(exist_ok=True)
        frame = np.full((8, 8), 3_000 if number == 15 else 30_000, np.uint16)
        Image.fromarray(frame).save(tmp_path / f"cells{number % 2}" / f"{number:02}.png")
    with pytest.raises(InputError, match=r"cells1: 15\.png cannot be used: its grey values are 3000 … 3000, .* arrays"):
        ClipReader.read(tmp_path, Reading(), 8)


def test_what_a_folder_holds_is_said_where_none_of_it_is_read(tmp_path):
    for name in ("1.heic", "2.HEIC", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"paired \(there are 2 \.heic, 1 \.txt; pictures are read of \.bmp .*\.mp4"):
        find_reader(tmp_path, TURNED)
    (tmp_path / "table.csv").touch()
    with pytest.raises(InputError, match=r"table\.csv is not a file that is read: save its arrays by numpy\.savez"):
        find_reader(tmp_path / "table.csv", TURNED)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there are no files;"):
        find_reader(tmp_path / "empty", TURNED)


def test_videos_may_lie_in_folders_of_categories(tmp_path):
    (tmp_path / "all/walk/deep").mkdir(parents=True)
    (tmp_path / "all/walk/deep/1.avi").touch()
    with pytest.raises(InputError, match=r"1\.avi lies too deep: videos are looked for down to CATEGORY/NAME"):
        find_reader(tmp_path / "all", Reading())
    (tmp_path / "all/walk/1.avi").touch()
    assert find_reader(tmp_path / "all", Reading()) is ClipReader
    with pytest.raises(InputError, match="holds videos, whose frames are paired without --transform: leave it out"):
        find_reader(tmp_path / "all", TURNED)
    write(tmp_path / "all/still.png")
    assert find_reader(tmp_path / "all", Reading()) is PictureReader
    with pytest.raises(InputError, match=r"1 pictures: .* \(2 videos among the pictures not read \(walk/1\.avi, "):
        PictureReader.read(tmp_path / "all", Reading(crops=0), 8)


def test_videos_that_are_not_read_are_named(tmp_path):
    write(*(tmp_path / "clip" / f"{frame}.png" for frame in range(15)))
    (tmp_path / "clip/walk.avi").touch()
    assert "1 video not read (clip/walk.avi)" in ClipReader.read(tmp_path, Reading(), 8).note
    assert "1 video among the pictures not read (clip/walk.avi)" in PictureReader.read(tmp_path, TURNED, 8).note
    with pytest.raises(InputError, match=r"1 video not read \(clip/walk\.avi\): videos are looked for .* not beside"):
        read_observations(tmp_path, (3, 8, 8), of_bytes=True)
    (tmp_path / "a/b/c").mkdir(parents=True)
    for place in ("a/b/c/deep.avi", "a/run.avi"):
        (tmp_path / place).touch()
    with pytest.raises(InputError, match=r"a: 1 video not read \(b/c/deep\.avi\): videos are looked for down to"):
        read_observations(tmp_path / "a", (3, 8, 8), of_bytes=True)


def test_categories_label_their_clips_in_every_part(tmp_path):
    for category in ("run", "walk"):
        for clip in range(4):
            write(*(tmp_path / "all" / category / f"{category}{clip}" / f"{frame}.png" for frame in range(5)))
    table = ClipReader.read(tmp_path / "all", Reading(), 8)
    assert table.classes == ("run", "walk") and table.label.tolist() == [0] * 20 + [1] * 20 and not table.note
    assert ClipReader.names(tmp_path / "all", Reading()) == {"x", "clip", "label"}
    pixels = np.arange(40).astype(np.uint8).reshape(-1, 1, 1, 1) + np.zeros((1, 3, 8, 8), np.uint8)  # no copies
    parts = split(replace(table, views={"x": pixels}), 0.1, 0.1)
    assert all(set(table.label[rows]) == {0, 1} for rows in parts[:3])
    for category, part in (("run", "train"), ("walk", "test")):  # no categories
        (tmp_path / "all" / category).rename(tmp_path / "all" / part)
    assert ClipReader.names(tmp_path / "all", Reading()) == {"x", "clip"}
    assert "for test, train are parts of a data set" in ClipReader.read(tmp_path / "all", Reading(), 8).note
    (tmp_path / "all" / "test").rename(tmp_path / "all" / "walk")
    assert ClipReader.read(tmp_path / "all", Reading(), 8).classes == ("train", "walk")
    write(*(tmp_path / "all" / "loose" / f"{frame}.png" for frame in range(5)))
    assert ClipReader.read(tmp_path / "all", Reading(), 8).label is None


@pytest.mark.parametrize("crops", [0, 40])
def test_a_loose_picture_takes_the_labels_and_is_named(tmp_path, crops):
    write(*(tmp_path / ("even", "odd")[number % 2] / f"{number}.png" for number in range(20)))
    reading = Reading(transform="rotation", crops=crops)
    labelled = PictureReader.read(tmp_path, reading, 8)
    assert labelled.classes == ("even", "odd") and not labelled.note
    write(tmp_path / "cover.png")
    table = PictureReader.read(tmp_path, reading, 8)
    assert not table.classes and "no labels, for cover.png lies beside the folders: move it into one" in table.note


def test_classes_one_folder_too_deep_are_named(tmp_path):
    write(*(tmp_path / "images" / ("even", "odd")[number % 2] / f"{number}.png" for number in range(20)))
    table = PictureReader.read(tmp_path, TURNED, 8)
    assert table.label is None and table.note == (
        "there are no labels, for all pictures lie in images/, whose folders (even, odd) may be classes: give "
        f"{tmp_path / 'images'} as DATA"
    )
    assert len(PictureReader.read(tmp_path / "images", TURNED, 8).classes) == 2
    write(*(tmp_path / "one" / "images" / f"{number}.png" for number in range(20)))
    assert not PictureReader.read(tmp_path / "one", TURNED, 8).note


def test_folders_of_one_picture_each_are_no_classes(tmp_path):
    write(*(tmp_path / f"stone{number}" / "picture.png" for number in range(16)))
    table = PictureReader.read(tmp_path, TURNED, 8)
    assert table.label is None and table.note == "there are no labels, for each folder holds one picture"
    write(tmp_path / "stone0" / "second.png")
    assert len(PictureReader.read(tmp_path, TURNED, 8).classes) == 16


@pytest.mark.skipif(os.name != "posix", reason="devices have no paths")
def test_a_device_is_no_data():
    with pytest.raises(InputError, match=r"/dev/null is a device, .*not a file or folder: give --data .*of clips"):
        find_reader(Path(os.devnull), Reading())


def test_a_single_picture_is_no_data(tmp_path):
    write(tmp_path / "walk.gif")
    with pytest.raises(InputError, match=r"walk\.gif is one picture: give a folder of .* of clips \(videos, or"):
        find_reader(tmp_path / "walk.gif", TURNED)


@pytest.mark.parametrize("names", [("x", "tx"), ("Before", "After"), ("source", "TARGET")])
def test_folders_that_speak_of_pairs_are_no_clips(tmp_path, names):
    for name in names:
        write(*(tmp_path / name / f"{number:04}.png" for number in range(2)))
    with pytest.raises(InputError, match=r"have the same names: for pairs call the folders a and b \(and c\); for"):
        find_reader(tmp_path, Reading())
    assert find_reader(tmp_path, TURNED) is PictureReader
    write(tmp_path / names[0] / "0002.png")
    with pytest.raises(InputError, match=r"names of pairs: for pairs call .*, and give the pictures of a pair one"):
        find_reader(tmp_path, Reading())


@pytest.mark.parametrize("cameras", ["transforms.json", "sparse/0/images.txt"])
def test_clips_with_cameras_have_their_frames_in_images(tmp_path, cameras):
    for name in ("one", "two"):
        write(*(tmp_path / name / "images" / f"{number}.png" for number in range(10)))
        (tmp_path / name / cameras).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / cameras).touch()
    table = ClipReader.read(tmp_path, Reading(), 8)
    assert len(table) == 20 and not table.note and not table.clip[:10].any()


def test_frames_are_read_up_to_the_memory_that_is_allowed(tmp_path, monkeypatch):
    for name in ("one", "two"):
        write(*(tmp_path / name / f"{number}.png" for number in range(50)))
    read = []
    monkeypatch.setattr(stream, "read_square", lambda *given: read.append(given) or read_square(*given))
    frame = 3 * 8**2 / 1e9
    with pytest.raises(InputError, match=r"100 frames of 8×8 pixels take .* GB of memory: allow it by --memory 1"):
        ClipReader.read(tmp_path, Reading(memory=60 * frame), 8)
    assert len(read) <= 62
    assert len(ClipReader.read(tmp_path, Reading(memory=100 * frame), 8)) == 100


@pytest.mark.parametrize("frames", [2, 20])
def test_clips_of_folders_ask_whether_they_are_classes(tmp_path, frames):
    for name in ("cat", "dog", "emu"):
        write(*(tmp_path / name / f"{name}{number}.png" for number in range(frames)))
    words = "each folder is taken for a clip: are these classes? give --transform"
    if frames == 20:
        assert ClipReader.read(tmp_path, Reading(), 8).note == words
    else:
        with pytest.raises(InputError, match=r"6 frames that can be paired: .*are these classes"):
            ClipReader.read(tmp_path, Reading(), 8)


def test_clips_have_numbered_frames(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name / "frame1.png", tmp_path / name / "frame2.png")
    assert find_reader(tmp_path, Reading()) is ClipReader
    for name in ("left", "right"):
        write(tmp_path / "sides" / name / "cat.png", tmp_path / "sides" / name / "dog.png")
    with pytest.raises(InputError, match="pictures in left/ and right/ have the same names: for pairs"):
        find_reader(tmp_path / "sides", Reading())


def test_capitals_name_pairs_too(tmp_path):
    write(*(tmp_path / side / f"{number}.png" for side in "Ab" for number in range(15)))
    assert find_reader(tmp_path, Reading()) is PairedReader
    assert set(PairedReader.read(tmp_path, Reading(), 8).views) == PairedReader.names(tmp_path, Reading())


def test_names_are_compared_as_letters_not_as_bytes(tmp_path):
    for side, form in (("a", "NFC"), ("b", "NFD")):  # as Linux and a Mac write é
        write(*(tmp_path / side / f"{normalize(form, 'é')}{number}.png" for number in range(15)))
    assert len(PairedReader.read(tmp_path, Reading(), 8)) == 15


@pytest.mark.parametrize("crops", [0, 40])
def test_pictures_that_cannot_be_used_are_named_together(tmp_path, crops):
    write(*(tmp_path / f"{number}.png" for number in range(16)))
    for name in ("3", "5", "11"):
        (tmp_path / f"{name}.png").write_bytes(b"no picture")
    problem = r"3\.png cannot be read \(.*\): repair or remove it; 2 others cannot be used either: 5\.png, 11\.png$"
    with pytest.raises(InputError, match=problem):
        PictureReader.read(tmp_path, Reading(transform="rotation", crops=crops), 4)


def test_pictures_of_one_name_in_two_classes_are_both_counted(tmp_path):
    write(*(tmp_path / side / f"{number}.png" for side in ("cat", "dog") for number in range(8)))
    for side in ("cat", "dog"):
        (tmp_path / side / "3.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"1 other cannot be used either: 3\.png$"):
        PictureReader.read(tmp_path, TURNED, 4)


@pytest.mark.skipif(sys.platform != "linux", reason="file names there are text")
def test_a_name_may_hold_bytes_that_are_no_text(tmp_path):
    write(*(tmp_path / f"{number}.png" for number in range(15)), tmp_path / os.fsdecode(b"\xe9.png"))
    assert len(PictureReader.read(tmp_path, TURNED, 8)) == 16


def test_a_model_of_grey_values_gets_the_brightness_of_colours(tmp_path):
    colours = ("red", "lime", "blue", "orange")
    for colour in colours:
        Image.new("RGB", (4, 4), colour).save(tmp_path / f"{colour}.png")
    observed = read_observations(tmp_path, (1, 4, 4), of_bytes=True)
    assert sorted(observed.names) == sorted(f"{colour}.png" for colour in colours)
    for name, values in zip(observed.names, observed.values, strict=True):
        with Image.open(tmp_path / name) as image:  # by Pillow's own conversion
            np.testing.assert_allclose(values[0], np.asarray(image.convert("L")), atol=1)

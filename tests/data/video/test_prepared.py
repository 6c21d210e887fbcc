"""Prepared frames: what is stored, resumption, processes, and footage that cannot be used."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from niso.data import workers
from niso.data.video import prepared as frames
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Refused, Sequence, hold_out, longest_run
from niso.errors import InputError
from niso.files.locks import locked
from tests.poses import random_poses

SMALL = Preparation(size=16, min_frames=3)


def video(folder, name="cup/one", count=6, size=(40, 30), posed=True, split="train") -> Sequence:
    """Frames whose centred square is grey 20 × number, between red margins."""
    place = folder / "source" / name
    place.mkdir(parents=True, exist_ok=True)
    images = []
    for number in range(count):
        pixels = np.zeros((size[1], size[0], 3), np.uint8)
        pixels[..., 0] = 255
        side = min(size)
        top, left = (size[1] - side) // 2, (size[0] - side) // 2
        pixels[top : top + side, left : left + side] = 20 * number
        images.append(place / f"{number}.png")
        Image.fromarray(pixels).save(images[-1])
    poses = random_poses(count, torch.Generator().manual_seed(len(name)), dtype=torch.float64).numpy()
    return Sequence(name, images, list(range(count)), poses if posed else None, split, {}, size[::-1])


def grey(prepared, sequence=0):
    """Values of the frames, to the nearest ten: JPEG is not exact."""
    return [round(float(prepared.image(sequence, n).float().mean()), -1) for n in range(prepared.lengths[sequence])]


def test_frames_and_poses_come_back(tmp_path):
    sequences = [video(tmp_path), video(tmp_path, "mug/two", size=(20, 36), split="test"), video(tmp_path, "three")]
    outcome = prepare(sequences, tmp_path / "out", preparation=SMALL)
    assert outcome == (3, 0, {}, {})
    prepared = frames.open_frames(tmp_path / "out")
    assert prepared.names == ["cup/one", "mug/two", "three"] and prepared.lengths == [6, 6, 6] and prepared.size == 16
    for number, sequence in enumerate((sequences[0], sequences[1], sequences[2])):
        assert grey(prepared, number) == [0, 20, 40, 60, 80, 100]
        image = prepared.image(number, 5)
        assert image.shape == (3, 16, 16) and image.dtype == torch.uint8
        assert (image[:, 2:-2, 2:-2].int() - 100).abs().max() <= 5  # nothing of the margins
        torch.testing.assert_close(prepared.poses(number), torch.from_numpy(sequence.poses), atol=0, rtol=0)
    assert prepared.splits == ["train", "test", "train"]
    clip = prepared.clip(1)
    assert clip.images.shape == (6, 3, 16, 16) and torch.equal(clip.images[3], prepared.image(1, 3))


def test_detail_keeps_its_place_and_colour(tmp_path):
    """A large JPEG, which is decoded at a reduced size: a gradient to the right and one downwards."""
    y, x = np.mgrid[0:600, 0:800]
    pixels = np.stack((255 * x / 799, 255 * y / 599, np.full_like(x, 128)), -1).astype(np.uint8)
    path = tmp_path / "large.jpg"
    Image.fromarray(pixels).save(path, quality=95)
    prepare([Sequence("one", [path] * 3, [0, 1, 2])], tmp_path / "out", preparation=SMALL)
    image = frames.open_frames(tmp_path / "out").image(0, 1).double().numpy()
    centres = (np.arange(16) + 0.5) / 16
    np.testing.assert_allclose(image[0], np.tile(255 * (100 + 600 * centres) / 800, (16, 1)), atol=6)
    np.testing.assert_allclose(image[1], np.tile(255 * centres[:, None], (1, 16)), atol=6)


def test_video_without_cameras(tmp_path):
    prepare([video(tmp_path, posed=False)], tmp_path / "out", preparation=SMALL)
    prepared = frames.open_frames(tmp_path / "out")
    assert prepared.poses(0).isnan().all()
    assert grey(prepared)[2] == 40


@pytest.mark.parametrize("name", ["index", "refused", "parameters"])
def test_sequences_do_not_take_the_names_of_the_folders_own_files(tmp_path, name):
    outcome = prepare([video(tmp_path, name), video(tmp_path)], tmp_path / "out", preparation=SMALL)
    assert outcome.refused == {name: f"{name}.json is a file of niso's own: rename it"}
    assert frames.open_frames(tmp_path / "out").names == ["cup/one"]


@pytest.mark.slow  # a process that imports torch
def test_several_processes_do_the_same(tmp_path, monkeypatch):
    """One in place of two, for the import takes seconds: `test_workers.py` starts two."""
    pool = workers.ProcessPoolExecutor
    monkeypatch.setattr(workers, "ProcessPoolExecutor", lambda _, *settings: pool(1, *settings))
    sequences = [video(tmp_path, f"cup/{number}") for number in range(4)]
    prepare(iter(sequences), tmp_path / "one", 1, SMALL)
    prepare(iter(sequences), tmp_path / "two", 2, SMALL)
    for path in sorted((tmp_path / "one").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_preparation_goes_on_where_it_stopped(tmp_path):
    sequences = [video(tmp_path, f"cup/{number}") for number in range(4)]

    def interrupted():
        yield from sequences[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(interrupted(), tmp_path / "out", preparation=SMALL)
    with pytest.raises(InputError, match="is not finished"):
        frames.open_frames(tmp_path / "out")
    stale = tmp_path / "out/cup/.2.frames.999999999.tmp"  # of a process that was killed while it wrote
    stale.write_bytes(b"half")
    before = (tmp_path / "out/cup/1.frames").stat().st_mtime_ns
    assert prepare(sequences, tmp_path / "out", preparation=SMALL)[:2] == (2, 2)
    assert (tmp_path / "out/cup/1.frames").stat().st_mtime_ns == before
    assert frames.open_frames(tmp_path / "out").lengths == [6] * 4 and not stale.exists()


def test_changed_or_damaged_sequences_are_prepared_again(tmp_path):
    sequences = [video(tmp_path, f"cup/{number}") for number in range(4)]
    prepare(sequences, tmp_path / "out", preparation=SMALL)
    Image.new("RGB", (40, 30), (200, 200, 200)).save(sequences[0].images[2])
    poses = sequences[1].poses.copy()
    poses[3, 0, 3] += 1
    sequences[1] = replace(sequences[1], poses=poses)
    with open(tmp_path / "out/cup/2.frames", "r+b") as file:
        file.truncate(100)
    with pytest.raises(InputError, match=r"cup/2\.frames has 100 of its"):
        frames.open_frames(tmp_path / "out")
    assert prepare(sequences, tmp_path / "out", preparation=SMALL)[:2] == (3, 1)
    prepared = frames.open_frames(tmp_path / "out")
    assert grey(prepared)[2] == 200
    assert prepared.poses(1)[3, 0, 3] == poses[3, 0, 3]


def test_a_new_split_needs_no_new_frames(tmp_path):
    sequence = video(tmp_path)
    prepare([sequence], tmp_path / "out", preparation=SMALL)
    outcome = prepare([replace(sequence, split="test")], tmp_path / "out", preparation=SMALL)
    assert outcome[:2] == (0, 1)
    assert frames.open_frames(tmp_path / "out").splits == ["test"]


def test_the_longest_run_of_usable_frames_is_kept(tmp_path):
    sequence = video(tmp_path, count=9)
    sequence.images[1].unlink()
    sequence.images[7].write_bytes(sequence.images[7].read_bytes()[:60])
    outcome = prepare([sequence], tmp_path / "out", preparation=SMALL)
    note = outcome.notes["cup/one"]
    assert note == "5 of 9 frames kept: numbers 2 to 6 (2 frames cannot be used, first number 1: 1.png is missing)"
    prepared = frames.open_frames(tmp_path / "out")
    assert grey(prepared) == [40, 60, 80, 100, 120]
    torch.testing.assert_close(prepared.poses(0), torch.from_numpy(sequence.poses[2:7]))
    assert json.loads((tmp_path / "out/refused.json").read_text())["notes"]["cup/one"] == note


def test_a_gap_in_the_numbers_is_no_neighbourhood(tmp_path):
    sequence = replace(video(tmp_path, count=7), numbers=[0, 1, 2, 5, 6, 7, 8])
    outcome = prepare([sequence], tmp_path / "out", preparation=SMALL)
    assert "kept: numbers 5 to 8 (2 numbers are missing)" in outcome.notes["cup/one"]
    assert grey(frames.open_frames(tmp_path / "out")) == [60, 80, 100, 120]


def test_the_split_is_drawn_from_what_was_prepared(tmp_path):
    """One of three sequences is refused: whichever it is, one is left to train on and one to test on."""
    for seed in range(3):
        names = ["a", "b", "c"]
        listed = [video(tmp_path, name, 2 if place == seed else 6) for place, name in enumerate(names)]
        out = tmp_path / f"out{seed}"
        outcome = prepare(listed, out, preparation=SMALL, draw=partial(hold_out, names, 0.1, 0))
        assert list(outcome.refused) == [names[seed]]
        assert sorted(frames.open_frames(out).splits) == ["test", "train"]


def test_one_of_a_kind_is_counted_in_the_singular(tmp_path):
    sequence = replace(video(tmp_path, count=6), numbers=[0, 1, 3, 4, 5, 6], problems={5: "blurred"})
    outcome = prepare([sequence], tmp_path / "out", preparation=SMALL)
    note = "3 of 6 frames kept: numbers 3 to 5 (1 number is missing; 1 frame cannot be used, first number 6: blurred)"
    assert outcome.notes == {"cup/one": note}
    with pytest.raises(InputError, match=r"it has 3 usable frames in a row, 4 are needed \(1 number is missing; "):
        prepare([sequence], tmp_path / "other", preparation=replace(SMALL, min_frames=4))


def test_cameras_that_stand_still_and_frames_that_are_repeated_are_noted(tmp_path):
    still, repeated, slow = (video(tmp_path, name) for name in ("still", "repeated", "slow"))
    still.poses[:] = still.poses[0]
    slow.poses[:] = slow.poses[0]
    slow.poses[3, 0, 3] += 1e-6
    repeated = replace(repeated, images=[repeated.images[number // 2] for number in range(6)])
    blind = video(tmp_path, "blind", posed=False)
    outcome = prepare([still, repeated, slow, blind], tmp_path / "out", preparation=SMALL)
    assert outcome.notes == {
        "still": "its camera does not move",
        "repeated": "3 of 5 pairs of neighbouring frames are equal",
    }
    still.problems[5] = "blurred"
    outcome = prepare([still], tmp_path / "other", preparation=SMALL)
    assert outcome.notes["still"].endswith("first number 5: blurred); its camera does not move")


def test_broken_cameras_are_never_stored(tmp_path):
    sequence = replace(video(tmp_path, count=8), problems={3: "its camera is a reflection"})
    outcome = prepare([sequence], tmp_path / "out", preparation=SMALL)
    assert "first number 3: its camera is a reflection" in outcome.notes["cup/one"]
    assert frames.open_frames(tmp_path / "out").poses(0).isfinite().all()


@pytest.mark.parametrize(
    ("numbers", "problems", "expected"),
    [
        ([], {}, range(0)),
        ([4], {}, range(1)),
        ([0, 1, 2, 3], {}, range(4)),
        ([0, 1, 2, 3], {0: ""}, range(1, 4)),
        ([0, 1, 2, 3], {3: ""}, range(3)),
        ([0, 1, 2, 3, 4], {2: ""}, range(2)),
        ([0, 1, 3, 4, 5], {}, range(2, 5)),
        ([0, 1, 3, 4, 5], {2: "", 4: ""}, range(2)),
        ([0, 2, 4], {}, range(1)),
        ([0, 1], {0: "", 1: ""}, range(0)),
    ],
)
def test_longest_run(numbers, problems, expected):
    assert list(longest_run(numbers, problems)) == list(expected)


def test_unusable_sequences_are_named_and_leave_nothing(tmp_path):
    short, mixed, gone = video(tmp_path, "a/short", 2), video(tmp_path, "a/mixed"), video(tmp_path, "a/gone")
    Image.new("RGB", (50, 30)).save(mixed.images[4])
    for path in gone.images:
        path.unlink()
    listed = [short, mixed, gone, Refused("a/told", "the reader said no"), video(tmp_path, "a/good")]
    seen = []
    outcome = prepare(listed, tmp_path / "out", preparation=SMALL, report=lambda *facts: seen.append(facts))
    assert outcome.prepared == 1
    assert "2 usable frames in a row, 3 are needed" in outcome.refused["a/short"]
    assert "mixed sizes (40×30 and 50×30 pixels, 4.png)" in outcome.refused["a/mixed"]
    assert "first number 0: 0.png is missing" in outcome.refused["a/gone"]
    assert outcome.refused["a/told"] == "the reader said no"
    assert dict(seen) == outcome.refused | {"a/good": None}
    assert sorted(path.name for path in (tmp_path / "out/a").iterdir()) == ["good.frames", "good.json"]
    assert json.loads((tmp_path / "out/refused.json").read_text())["refused"] == outcome.refused


def test_images_are_those_of_their_cameras_or_scaled_copies(tmp_path):
    for number, size in enumerate([(30, 40), (60, 80), (121, 160)]):
        assert prepare([replace(video(tmp_path), size=size)], tmp_path / f"{number}", preparation=SMALL).prepared == 1
    sequence = replace(video(tmp_path), size=(80, 60))
    with pytest.raises(InputError, match=r"no sequence could be .*\(cup/one: .*40×30 pixels .* cameras are of 60×80"):
        prepare([sequence], tmp_path / "out", preparation=SMALL)
    with pytest.raises(InputError, match="is not finished"):
        frames.open_frames(tmp_path / "out")


def test_names_and_numbers_are_checked(tmp_path):
    for name in ("../out", "/etc/x", "a/b/c", "a//b", "", "."):
        with pytest.raises(InputError, match="cannot be a file's"):
            Sequence(name, [], [])
    for numbers in ([1, 1, 2], [2, 1, 3]):
        with pytest.raises(InputError, match="not increasing"):
            Sequence("a", [tmp_path] * 3, numbers)
    with pytest.raises(InputError, match="comes twice"):
        prepare([video(tmp_path), video(tmp_path)], tmp_path / "out", preparation=SMALL)


def test_other_folders_and_preparations_are_left_alone(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").touch()
    with pytest.raises(InputError, match="is not a folder"):
        prepare([], tmp_path / "file", preparation=SMALL)
    with pytest.raises(InputError, match="holds no prepared frames: choose another"):
        prepare([], tmp_path / "full", preparation=SMALL)
    prepare([video(tmp_path)], tmp_path / "out", preparation=SMALL)
    with pytest.raises(InputError, match="prepared with size 16, not 144"):
        prepare([video(tmp_path)], tmp_path / "out")
    with locked(tmp_path / "out"), pytest.raises(InputError, match="another process"):
        prepare([video(tmp_path)], tmp_path / "out", preparation=SMALL)
    with pytest.raises(InputError, match="workers must be at least 1"):
        prepare([video(tmp_path)], tmp_path / "new", 0, SMALL)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    sequences = [video(tmp_path, "a/one"), video(tmp_path, "a/two")]
    real = os.replace

    def full(source, target):
        if "two" in str(target):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"cannot write .*two\.json \(No space left on device\)"):
        prepare(sequences, tmp_path / "out", preparation=SMALL)
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "out/a").iterdir()) == ["one.frames", "one.json"]
    assert prepare(sequences, tmp_path / "out", preparation=SMALL)[:2] == (1, 1)


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="nowhere holds no prepared frames: there is no such folder"):
        frames.open_frames(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no prepared frames"):
        frames.open_frames(tmp_path)
    prepare([video(tmp_path)], tmp_path / "out", preparation=SMALL)
    prepared = frames.open_frames(tmp_path / "out")
    for number in (-1, 6):
        with pytest.raises(IndexError, match="has 6 frames"):
            prepared.image(0, number)
    index = json.loads((tmp_path / "out/index.json").read_text())
    for changes, words in (({"split": "validation"}, "is in the part 'validation'"), ({}, "lacks facts of cup/one")):
        edited = {"cup/one": {**index["cup/one"], **changes} if changes else {"frames": 6}}
        (tmp_path / "out/index.json").write_text(json.dumps(edited))
        with pytest.raises(InputError, match=words):
            frames.open_frames(tmp_path / "out")
    (tmp_path / "out/index.json").write_text(json.dumps(index))
    (tmp_path / "out/cup/one.frames").unlink()
    with pytest.raises(InputError, match=r"one\.frames is missing"):
        frames.open_frames(tmp_path / "out")
    with pytest.raises(InputError, match=r"cup/one\.frames is damaged"):
        prepared.image(0, 0)
    (tmp_path / "out/index.json").write_text("[]")
    with pytest.raises(InputError, match="does not hold facts"):
        frames.open_frames(tmp_path / "out")
    (tmp_path / "out/parameters.json").write_text('{"format": 99}')
    with pytest.raises(InputError, match="has format 99, and this version reads 1"):
        frames.open_frames(tmp_path / "out")


@pytest.mark.parametrize("where", ["image", "record"])
def test_damage_within_a_shard_is_named(tmp_path, where):
    prepare([video(tmp_path)], tmp_path / "out", preparation=SMALL)
    prepared = frames.open_frames(tmp_path / "out")
    path = tmp_path / "out/cup/one.frames"
    content = bytearray(path.read_bytes())
    if where == "image":
        content[0:20] = bytes(20)
    else:
        content[-6 * frames.RECORD.itemsize :] = bytes(6 * frames.RECORD.itemsize)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"one\.frames is damaged"):
        prepared.image(0, 0)


def test_settings_are_checked():
    for wrong in ({"size": 0}, {"min_frames": 0}, {"jpeg_quality": 99}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Preparation(**wrong)

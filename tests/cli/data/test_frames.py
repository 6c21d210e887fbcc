"""`niso data prepare co3d` and `video`: what they make, what they say, and how they end."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from niso.data.video import co3d
from niso.data.video import sequences as frame_sequences
from niso.data.video.prepared import open_frames
from tests.poses import random_poses

TINY = "--size 16 --min-frames 3 --workers 1".split()
FRAMES = 5


def images(folder: Path, count: int = FRAMES) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        Image.new("RGB", (40, 30), (20 * number,) * 3).save(path)
    return paths


def true_poses(seed: int) -> torch.Tensor:
    return random_poses(FRAMES, torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """CO3Dv2's layout with four sequences; the numbers of their frames are not in order."""
    root, entries, scores = tmp_path / "in", [], []
    for seed in range(4):
        name = f"{seed}_cup"
        scores.append({"sequence_name": name, "viewpoint_quality_score": 0.1 * seed})
        signs = torch.tensor([-1.0, -1, 1], dtype=torch.float64)  # PyTorch3D's x is to the left, its y upwards
        world_to_camera = torch.linalg.inv(true_poses(seed))
        rotations, translations = world_to_camera[:, :3, :3].mT * signs, world_to_camera[:, :3, 3] * signs
        for number, path in reversed(list(enumerate(images(root / "cup" / name / "images")))):
            view = {"R": rotations[number].tolist(), "T": translations[number].tolist()}
            view |= {"focal_length": [2, 2], "principal_point": [0, 0], "intrinsics_format": "ndc_isotropic"}
            image = {"path": str(path.relative_to(root)), "size": [30, 40]}
            entries.append({"sequence_name": name, "frame_number": number, "image": image, "viewpoint": view})
    annotate(root, entries)
    (root / "cup" / co3d.SEQUENCES).write_bytes(gzip.compress(json.dumps(scores).encode()))
    return root


def annotate(root: Path, entries: list[dict]) -> None:
    (root / "cup" / co3d.FRAMES).write_bytes(gzip.compress(json.dumps(entries).encode()))


def annotations(root: Path) -> list[dict]:
    return json.loads(gzip.decompress((root / "cup" / co3d.FRAMES).read_bytes()))


def test_co3d_and_go_on(niso, annotated: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, said, err = niso("data", "prepare", "co3d", annotated, out, *TINY, "--quality", "0.5")
    assert status == 0, err
    assert said == f"2 sequences prepared in {out}, 0 refused\n" and "2 sequences were not chosen" in err
    prepared = open_frames(out)
    assert prepared.names == ["cup/2_cup", "cup/3_cup"] and sorted(prepared.splits) == ["test", "train"]
    for place, seed in enumerate((2, 3)):
        torch.testing.assert_close(prepared.poses(place), true_poses(seed), atol=1e-6, rtol=0)
        greys = prepared.clip(place).images.float().mean((1, 2, 3))
        torch.testing.assert_close(greys, 20 * torch.arange(5.0), atol=2, rtol=0)
    status, said, _ = niso("data", "prepare", "co3d", annotated, out, *TINY, "--quality", "1")
    assert (status, said) == (0, f"2 sequences prepared in {out}, 2 were there, 0 refused\n")


def test_a_split_file(niso, annotated: Path, tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text(json.dumps({"train": ["0_cup"], "test": ["cup/1_cup"]}))
    call = ["data", "prepare", "co3d", annotated, tmp_path / "out", *TINY, "--split-file", tmp_path / "split.json"]
    assert niso(*call)[0] == 0
    prepared = open_frames(tmp_path / "out")
    assert dict(zip(prepared.names, prepared.splits, strict=True)) == {"cup/0_cup": "train", "cup/1_cup": "test"}


def test_bad_cameras_and_frames_are_named_and_never_prepared(niso, annotated: Path, tmp_path: Path) -> None:
    entries = annotations(annotated)
    by_name = {(entry["sequence_name"], entry["frame_number"]): entry for entry in entries}
    by_name["0_cup", 4]["viewpoint"]["T"][0] = float("nan")
    by_name["1_cup", 0]["viewpoint"]["R"] = (-np.eye(3)).tolist()
    by_name["3_cup", 2]["image"]["size"] = [40, 30]
    annotate(annotated, entries)
    (annotated / "cup/2_cup/images/2.jpg").unlink()  # leaves two and two
    out = tmp_path / "out"
    status, said, err = niso("data", "prepare", "co3d", annotated, out, *TINY, "--quality", "1")
    assert status == 3 and said == f"2 sequences prepared in {out}, 2 refused\n"
    assert "cup/0_cup: 4 of 5 frames kept: numbers 0 to 3 (1 frame cannot be used, first number 4: its camera is" in err
    assert "cup/1_cup: 4 of 5 frames kept: numbers 1 to 4" in err and "reflection" in err
    assert "refused cup/2_cup: it has 2 usable frames in a row, 3 are needed" in err and "2.jpg is missing" in err
    assert "refused cup/3_cup: its frames are of mixed sizes (40×30, 30×40)" in err
    prepared = open_frames(out)
    assert prepared.names == ["cup/0_cup", "cup/1_cup"] and prepared.lengths == [4, 4]
    assert all(bool(prepared.poses(place).isfinite().all()) for place in range(2))


def test_footage_of_all_kinds(niso, write_video, tmp_path: Path) -> None:
    given, out = tmp_path / "in", tmp_path / "out"
    write_video(given / "walk.mp4")
    images(given / "home/frames")
    whole = write_video(given / "cut.mp4", faststart=True).read_bytes()
    (given / "cut.mp4").write_bytes(whole[: len(whole) * 3 // 4])
    (given / "text.mp4").write_text("no video")
    for seed in range(2):
        frames = [
            {"file_path": str(path), "transform_matrix": (pose * torch.tensor([1, -1, -1, 1])).tolist()}
            for path, pose in zip(images(given / f"posed{seed}/images"), true_poses(seed), strict=True)
        ]
        (given / f"posed{seed}/transforms.json").write_text(json.dumps({"frames": frames}))
    for number in range(12):
        (given / f"home/transforms_{number}.json").touch()
    status, said, err = niso("data", "prepare", "video", given, out, *TINY)
    assert (status, said) == (3, f"5 sequences prepared in {out}, 1 refused\n")
    assert "refused text: " in err and "text.mp4 cannot be decoded" in err
    assert "2 of 5 sequences with cameras" in err
    assert err.count("not read: ") == 11 and "not read: home/transforms_0.json: cameras are read from" in err
    assert "not read: … and 2 more" in err
    assert "cut: cut.mp4 is truncated" in err and "Traceback" not in err
    prepared = open_frames(out)
    assert prepared.names == ["cut", "home/frames", "posed0", "posed1", "walk"]
    splits = dict(zip(prepared.names, prepared.splits, strict=True))
    assert sorted((splits["posed0"], splits["posed1"])) == ["test", "train"] and splits["walk"] == "train"
    torch.testing.assert_close(prepared.poses(3), true_poses(1), atol=1e-6, rtol=0)
    assert "(trained on) and posed" in err and "have most of their frames in common" in err  # those of `images`
    status, _, err = niso("data", "prepare", "video", given, out, *TINY, "--test", "posed0", "posed1", "text")
    assert status == 3 and "refused, and so not there to test on: text" in err
    prepared = open_frames(out)
    assert [name for name, part in zip(prepared.names, prepared.splits, strict=True) if part == "test"] == [
        "posed0",
        "posed1",
    ]


def test_every_nth_frame_of_one_video(niso, write_video, tmp_path: Path) -> None:
    write_video(tmp_path / "walk.mp4")
    status, said, err = niso("data", "prepare", "video", tmp_path / "walk.mp4", tmp_path / "out", *TINY, "--every", "3")
    assert (status, said) == (0, f"1 sequence prepared in {tmp_path / 'out'}, 0 refused\n"), err
    assert "0 of 1 sequence with cameras" in err
    prepared = open_frames(tmp_path / "out")
    assert prepared.names == ["walk"] and prepared.lengths == [4]
    status, _, err = niso("data", "prepare", "video", tmp_path / "walk.mp4", tmp_path / "out", *TINY)
    assert status == 2 and "were prepared with every 3, not 1: choose another folder" in err
    assert open_frames(tmp_path / "out").lengths == [4]


def test_that_grey_of_16_bits_is_rounded_is_a_note_of_its_own(niso, tmp_path: Path) -> None:
    ramp = np.linspace(0, 65_535, 30 * 40).astype(np.uint16).reshape(30, 40)
    for path in images(tmp_path / "in/deep"):
        Image.fromarray(ramp).save(path.with_suffix(".png"))
        path.unlink()
    status, _, err = niso("data", "prepare", "video", tmp_path / "in", tmp_path / "out", *TINY)
    assert status == 0 and "grey of 16 bits is read in steps of 256\n" in err and "not read" not in err


def test_many_notes_are_not_all_printed(niso, tmp_path: Path) -> None:
    for number in range(12):
        images(tmp_path / "in" / str(number))[4].write_bytes(b"")
    status, _, err = niso("data", "prepare", "video", tmp_path / "in", tmp_path / "out", *TINY)
    assert status == 0 and err.count("kept: numbers 0 to 3") == 10
    assert f"and 2 more with notes, see {tmp_path / 'out/refused.json'}" in err


def test_nothing_that_could_be_prepared(niso, tmp_path: Path) -> None:
    images(tmp_path / "film")
    call = ["data", "prepare", "video", tmp_path / "film", tmp_path / "out", *TINY, "--min-frames", "99"]
    status, out, err = niso(*call)
    assert (status, out) == (2, "")
    assert "no sequence could be prepared (film: it has 5 usable frames in a row, 99 are needed); see " in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("co3d in", "OUT"),
        ("co3d none out", "none is not a folder"),
        ("co3d film out", "holds no <category>/sequence_annotations.jgz"),
        ("co3d in out --quality 0", "quality must be positive"),
        ("co3d in out --quality nan", "quality must be positive"),
        ("co3d in out --held-out 1", "held_out must be below 1"),
        ("co3d in out --split-file none.json", "cannot read split file none.json"),
        ("co3d in out --workers 0", "workers must be positive, got 0"),
        ("co3d in out --jpeg-quality 100", "jpeg_quality must be at most 95"),
        ("co3d in in", "in is not empty and holds no prepared frames"),
        ("co3d in out --size x", "must be a whole number"),
        ("video none out", "none does not exist"),
        ("video in out", "use `niso data prepare co3d`"),
        ("video film out --every 0", "every must be positive"),
        ("video film out --test flim", "no sequence 'flim' to test on; did you mean film?"),
        ("video film out --workers 0", "workers must be positive, got 0"),
    ],
)
def test_wrong_calls(refused, annotated: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str) -> None:
    monkeypatch.chdir(annotated.parent)
    images(annotated.parent / "film")
    said = refused("data", "prepare", *words.split())
    assert message in said
    assert not list(annotated.parent.glob("out/*.frames"))


def test_help(niso) -> None:
    for words, expected in (
        ("data --help", "prepare co3d IN OUT"),
        ("data prepare co3d -h", "--split-file"),
        ("data prepare video -h", "--every"),
    ):
        status, out, _ = niso(*words.split())
        assert status == 0 and expected in out


@pytest.mark.slow  # a process that imports torch
def test_killed_at_any_moment_the_same_command_goes_on(start, niso, tmp_path: Path) -> None:
    for number in range(40):
        images(tmp_path / "in" / f"{number:02}", 20)
    call = ["data", "prepare", "video", tmp_path / "in", tmp_path / "out", *TINY]
    process = start(*call)
    while len(done(tmp_path / "out")) < 3 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = len(done(tmp_path / "out"))
    assert 3 <= before < 40
    refusal = niso(*call, "--size", "8")
    assert refusal.status == 2 and "were prepared with size 16, not 8" in refusal.err
    status, out, err = niso(*call)
    assert status == 0, err
    assert out == f"{40 - before} sequences prepared in {tmp_path / 'out'}, {before} were there, 0 refused\n"
    assert len(open_frames(tmp_path / "out").names) == 40 and not list((tmp_path / "out").glob(".*.tmp"))


def done(out: Path) -> list[Path]:
    return [path for path in out.glob("[0-9]*.json") if path.is_file()]


def test_interrupted(niso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    images(tmp_path / "in")
    monkeypatch.setattr(frame_sequences, "read_square", interrupt)
    status, _, err = niso("data", "prepare", "video", tmp_path / "in", tmp_path / "out", *TINY)
    assert status == 130 and "interrupted; give the same command again to go on" in err
    monkeypatch.undo()
    assert niso("data", "prepare", "video", tmp_path / "in", tmp_path / "out", *TINY)[0] == 0

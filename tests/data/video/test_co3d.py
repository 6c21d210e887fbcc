"""CO3Dv2's layout: selection, streaming, cameras, and everything that can be wrong with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from niso.data.video import co3d
from niso.data.video.sequences import Sequence
from niso.errors import InputError
from tests.poses import random_poses

SIZE = (30, 40)


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


def true_poses(count: int, seed: int = 0) -> torch.Tensor:
    return random_poses(count, torch.Generator().manual_seed(seed), dtype=torch.float64)


def frame(category: str, name: str, number: int, pose: torch.Tensor) -> dict:
    signs = torch.tensor([-1.0, -1, 1], dtype=torch.float64)  # PyTorch3D's x is to the left, its y upwards
    world_to_camera = torch.linalg.inv(pose)
    rotation, translation = world_to_camera[:3, :3].T * signs, world_to_camera[:3, 3] * signs
    return {
        "sequence_name": name,
        "frame_number": number,
        "image": {"path": f"{category}/{name}/images/frame{number + 1:06}.jpg", "size": list(SIZE)},
        "viewpoint": {
            "R": rotation.tolist(),
            "T": translation.tolist(),
            "focal_length": [2.0, 2.0],
            "principal_point": [0.0, 0.0],
            "intrinsics_format": "ndc_isotropic",
        },
    }


def make(
    root: Path, category: str = "cup", scores=(0.4, 0.9, 0.1, None), frames: int = 5, images: bool = False
) -> dict:
    """A category; returns its frames by sequence, to be changed and written again."""
    sequences = {f"{number}_{category}": [] for number in range(len(scores))}
    for seed, (name, found) in enumerate(sequences.items()):
        for number, pose in enumerate(true_poses(frames, seed)):
            found.append(frame(category, name, number, pose))
            if images:
                path = root / found[-1]["image"]["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", SIZE[::-1], (40 * number, 80, 120)).save(path)
    entries = [
        {"sequence_name": name, "category": category} | ({} if score is None else {"viewpoint_quality_score": score})
        for name, score in zip(sequences, scores, strict=True)
    ]
    write(root / category / co3d.SEQUENCES, entries)
    rewrite(root, category, sequences)
    return sequences


def rewrite(root: Path, category: str, sequences: dict) -> None:
    write(root / category / co3d.FRAMES, [one for frames in sequences.values() for one in frames])


def read(root: Path, **options) -> dict[str, Sequence | str]:
    found = co3d.sequences(root, co3d.select(root, **({"quality": 1.0} | options)))
    return dict((one if isinstance(one, tuple) else (one.name, one)) for one in found)


def test_poses_numbers_and_images(tmp_path):
    make(tmp_path)
    found = read(tmp_path)
    assert list(found) == ["cup/0_cup", "cup/1_cup", "cup/2_cup", "cup/3_cup"]
    for seed, sequence in enumerate(found.values()):
        torch.testing.assert_close(torch.from_numpy(sequence.poses), true_poses(5, seed), atol=1e-9, rtol=0)
        assert sequence.numbers == [0, 1, 2, 3, 4] and sequence.problems == {} and sequence.size == SIZE
        assert sequence.images[1] == tmp_path / f"cup/{seed}_cup/images/frame000002.jpg"


def test_the_best_are_chosen_over_all_categories(tmp_path):
    make(tmp_path, "cup", (0.4, 0.9, 0.1, None))
    make(tmp_path, "bench", (0.8, 0.2, 0.3, 0.5, 0.6))
    chosen = co3d.select(tmp_path, quality=0.25, held_out=0.0)
    assert chosen.splits == {"bench/0_bench": "train", "cup/1_cup": "train"}
    assert len(chosen.left_out) == 7
    assert "0.4 is too low" in chosen.left_out["cup/0_cup"]
    assert chosen.left_out["cup/3_cup"] == "it has no viewpoint_quality_score"


def test_a_tenth_is_held_out_by_sequence(tmp_path):
    make(tmp_path, "cup", tuple(range(40)), frames=1)
    splits = co3d.select(tmp_path, quality=1.0, seed=1).splits
    assert list(splits.values()).count("test") == 4 and len(splits) == 40
    assert splits == co3d.select(tmp_path, quality=1.0, seed=1).splits
    assert splits != co3d.select(tmp_path, quality=1.0, seed=2).splits


def test_no_scores(tmp_path):
    make(tmp_path, scores=(None, None, float("nan")))
    with pytest.raises(InputError, match=r"no sequence in .* has a viewpoint_quality_score: keep all"):
        co3d.select(tmp_path)
    assert len(co3d.select(tmp_path, quality=1.0).splits) == 3


def test_split_file(tmp_path):
    make(tmp_path, "cup")
    make(tmp_path, "mug", (0.1,))
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"train": ["1_cup", "cup/2_cup"], "test": ["mug/0_mug"]}))
    chosen = co3d.read_split(tmp_path, path)
    assert chosen.splits == {"cup/1_cup": "train", "cup/2_cup": "train", "mug/0_mug": "test"}
    assert sorted(chosen.left_out) == ["cup/0_cup", "cup/3_cup"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"train": ["9_cup"]}', "sequence 9_cup is not in"),
        ('{"train": ["0_cup"], "test": ["cup/0_cup"]}', "cup/0_cup is named twice"),
        ('{"train": ["same"]}', "is in several categories"),
        ('{"validation": []}', 'must hold {"train"'),
        ('{"train": "0_cup"}', "must hold"),
        ("not JSON", "cannot read split file"),
    ],
)
def test_wrong_split_files(tmp_path, content, words):
    make(tmp_path, "cup", (1.0,))
    for category in ("a", "b"):
        write(tmp_path / category / co3d.SEQUENCES, [{"sequence_name": "same"}])
    path = tmp_path / "split.json"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        co3d.read_split(tmp_path, path)


def test_unsorted_frames_are_sorted(tmp_path):
    sequences = make(tmp_path)
    expected = read(tmp_path)["cup/0_cup"]
    sequences["0_cup"] = [sequences["0_cup"][place] for place in (3, 0, 4, 1, 2)]
    rewrite(tmp_path, "cup", sequences)
    found = read(tmp_path)["cup/0_cup"]
    assert found.numbers == expected.numbers and found.images == expected.images
    np.testing.assert_array_equal(found.poses, expected.poses)


def test_sequences_may_be_interleaved(tmp_path):
    sequences = make(tmp_path)
    expected = read(tmp_path)
    mixed = [one for group in zip(*sequences.values(), strict=True) for one in group]
    write(tmp_path / "cup" / co3d.FRAMES, mixed)
    for name, found in read(tmp_path).items():
        np.testing.assert_array_equal(found.poses, expected[name].poses)


def reflected(one):
    one["viewpoint"]["R"] = (-np.array(one["viewpoint"]["R"])).tolist()


def not_a_number(one):
    one["viewpoint"]["T"][1] = float("nan")


def scaled(one):
    one["viewpoint"]["R"] = (1.5 * np.array(one["viewpoint"]["R"])).tolist()


def without_camera(one):
    one["viewpoint"] = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (reflected, "is a reflection"),
        (not_a_number, "is not finite"),
        (scaled, "is not a rotation"),
        (without_camera, "is not finite"),
    ],
)
def test_broken_cameras_are_named_and_never_poses(tmp_path, change, words):
    sequences = make(tmp_path)
    change(sequences["1_cup"][2])
    rewrite(tmp_path, "cup", sequences)
    found = read(tmp_path)
    assert list(found["cup/1_cup"].problems) == [2] and words in found["cup/1_cup"].problems[2]
    assert np.isnan(found["cup/1_cup"].poses[2]).all()
    torch.testing.assert_close(torch.from_numpy(found["cup/1_cup"].poses[3]), true_poses(5, 1)[3])
    assert found["cup/0_cup"].problems == {}


def twice(frames):
    frames[2]["frame_number"] = 1


def mixed(frames):
    frames[2]["image"]["size"] = [40, 30]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (twice, "frame numbers occur twice"),
        (mixed, "mixed sizes (40×30, 30×40)"),
        (lambda frames: frames.clear(), "has no frame of it"),
    ],
)
def test_unusable_sequences_are_named_and_skipped(tmp_path, change, words):
    sequences = make(tmp_path)
    change(sequences["2_cup"])
    rewrite(tmp_path, "cup", sequences)
    found = read(tmp_path)
    assert words in found["cup/2_cup"]
    assert isinstance(found["cup/1_cup"], Sequence) and len(found) == 4


def test_annotations_are_a_stream(tmp_path, monkeypatch):
    """Whatever the size of the pieces, and with an element across several of them."""
    make(tmp_path)
    expected = read(tmp_path)
    for size in (1, 7, 1000):
        monkeypatch.setattr(co3d, "_CHUNK", size)
        for name, found in read(tmp_path).items():
            np.testing.assert_array_equal(found.poses, expected[name].poses)


@pytest.mark.parametrize("content", ["[]", " [ ] ", "[\n]"])
def test_empty_arrays(tmp_path, content):
    make(tmp_path)
    (tmp_path / "cup" / co3d.FRAMES).write_bytes(gzip.compress(content.encode()))
    assert set(read(tmp_path).values()) == {f"{co3d.FRAMES} has no frame of it"}


@pytest.mark.parametrize("kind", ["missing", "truncated", "text", "cut array", "an object", "foreign", "short camera"])
@pytest.mark.parametrize("file", [co3d.FRAMES, co3d.SEQUENCES])
def test_damaged_annotations(tmp_path, kind, file):
    make(tmp_path)
    path = tmp_path / "cup" / file
    whole = path.read_bytes()
    text = gzip.decompress(whole)
    if kind == "missing":
        if file == co3d.SEQUENCES:
            return
        path.unlink()
    elif kind == "short camera":
        path.write_bytes(gzip.compress(json.dumps([{"sequence_name": "0_cup", "frame_number": 1}]).encode()))
        if file == co3d.SEQUENCES:
            return
    else:
        path.write_bytes(
            {
                "truncated": whole[: len(whole) // 2],
                "text": b"not gzipped",
                "cut array": gzip.compress(text[: len(text) // 2]),
                "an object": gzip.compress(b'{"a": 1}'),
                "foreign": gzip.compress(b"[1, 2]"),
            }[kind]
        )
    with pytest.raises(InputError, match=f"{file}.*(fetch it again|is not CO3Dv2's)"):
        read(tmp_path)


def test_broken_json_in_the_middle_of_much_text_ends_soon(tmp_path, monkeypatch):
    make(tmp_path)
    monkeypatch.setattr(co3d, "_CHUNK", 100)
    monkeypatch.setattr(co3d, "_LARGEST", 1000)
    (tmp_path / "cup" / co3d.FRAMES).write_bytes(gzip.compress(b'[{"a": tru, ' + b"1, " * 10**5 + b"]"))
    with pytest.raises(InputError, match="JSON is not valid"):
        read(tmp_path)


def test_a_category_that_cannot_be_read_is_not_left_out(tmp_path, deny):
    for category in ("apple", "cup"):
        make(tmp_path, category)
    deny(tmp_path / "cup")
    with pytest.raises(PermissionError, match="cup"):
        read(tmp_path)


def test_not_the_right_folder(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        co3d.select(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no <category>"):
        co3d.select(tmp_path)
    with pytest.raises(ValueError, match="quality"):
        co3d.select(tmp_path, quality=0.0)


def test_a_name_cannot_leave_the_folder(tmp_path):
    sequences = {"..": [frame("cup", "..", n, pose) for n, pose in enumerate(true_poses(3))]}
    write(tmp_path / "cup" / co3d.SEQUENCES, [{"sequence_name": ".."}])
    rewrite(tmp_path, "cup", sequences)
    assert "cannot be a file's" in read(tmp_path)["cup/.."]

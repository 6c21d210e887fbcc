"""Where the pose experiment's frames come from, and what is refused."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from niso.data.video import co3d
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Sequence
from niso.errors import InputError
from niso.experiments.pose import rendered, sources
from niso.experiments.pose.evaluation import evaluable
from niso.experiments.pose.frames import Frames, Source
from niso.experiments.pose.presets import PRESETS
from niso.experiments.pose.sources import open_sequences
from niso.geometry import se3
from niso.runs import runner

CPU = torch.device("cpu")
SIZE = 8
TINY = replace(
    PRESETS["quick"],
    size=SIZE,
    clips=2,
    clip_frames=4,
    test_clips=1,
    test_frames=3,
    quality=1.0,
    held_out=0.34,
    mirrored=False,
)


def images(folder: Path, count: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(count)
    for number in range(count):
        pixels = generator.integers(256, size=(SIZE, SIZE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return [folder / f"{number}.png" for number in range(count)]


def prepared(folder: Path, cameras: dict[str, str], frames: int = 6) -> Path:
    """One sequence a name, of the split that the name begins with; its camera moves, stands still or is unknown."""
    generator = torch.Generator().manual_seed(0)
    sequences = []
    for name, camera in cameras.items():
        poses = se3.exp(0.1 * torch.randn(frames, 6, generator=generator, dtype=torch.float64)).numpy()
        poses = {"moves": poses, "stands": np.repeat(poses[:1], frames, 0), "unknown": None}[camera]
        paths, split = images(folder / "raw" / name, frames), name.split("-")[0]
        sequences.append(Sequence(name, paths, list(range(frames)), poses, split=split))
    prepare(sequences, folder / "prepared", preparation=Preparation(size=SIZE, min_frames=1))
    return folder / "prepared"


def annotated(root: Path, sequences: int = 3, frames: int = 21) -> Path:
    """Videos in CO3Dv2's layout."""
    entries, scores = [], []
    generator = torch.Generator().manual_seed(1)
    for place in range(sequences):
        name = f"{place:03}_toy"
        poses = se3.exp(0.1 * torch.randn(frames, 6, generator=generator))
        scores.append({"sequence_name": name, "viewpoint_quality_score": float(place)})
        for number, path in enumerate(images(root / "toy" / name / "images", frames)):
            view = {
                "R": poses[number, :3, :3].tolist(),
                "T": poses[number, :3, 3].tolist(),
                "focal_length": [2.0, 2.0],
                "principal_point": [0.0, 0.0],
                "intrinsics_format": "ndc_isotropic",
            }
            image = {"path": str(path.relative_to(root)), "size": [SIZE, SIZE]}
            entries.append({"sequence_name": name, "frame_number": number, "image": image, "viewpoint": view})
    for file, values in ((co3d.FRAMES, entries), (co3d.SEQUENCES, scores)):
        (root / "toy" / file).write_bytes(gzip.compress(json.dumps(values).encode()))
    return root


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    """An empty folder in place of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr("pooch.os_cache", lambda project: folder)
    return folder


def test_clips_are_rendered_once(cache, monkeypatch, capsys):
    first = open_sequences(TINY, None, CPU)
    assert first.names == ["orbit/train000", "walk/train001", "orbit/test000"]
    assert first.splits == ["train", "train", "test"] and first.lengths.tolist() == [4, 4, 3]
    assert first.resident.shape == (11, 3, SIZE, SIZE) and "render" in capsys.readouterr().err
    monkeypatch.setattr(rendered, "clips", None)
    second = open_sequences(TINY, None, CPU)
    assert torch.equal(first.resident, second.resident)
    assert all(torch.equal(x, y) for x, y in zip(first.poses, second.poses, strict=True))
    assert not evaluable(first, [2]).members[1] and evaluable(first, [2]).members[0] == [2]
    stored = next((cache / "clips").glob("*.safetensors"))
    stored.write_bytes(stored.read_bytes()[:100])
    with pytest.raises(InputError, match=r"safetensors is damaged .*remove it"):
        open_sequences(TINY, None, CPU)


def test_co3d_is_prepared_once_and_split_by_sequence(tmp_path, cache, monkeypatch, capsys):
    monkeypatch.setattr(sources, "cores", lambda: 1)  # processes take seconds to start
    root = annotated(tmp_path / "co3d")
    frames = open_sequences(TINY, root, CPU)
    assert sorted(frames.splits) == ["test", "train", "train"] and all(name.startswith("toy/") for name in frames.names)
    assert frames.lengths.tolist() == [21] * 3 and all(poses is not None for poses in frames.poses)
    shards = {path: path.stat().st_mtime_ns for path in cache.rglob("*.frames")}
    again = open_sequences(TINY, root, CPU)
    assert torch.equal(frames.resident, again.resident)
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.frames")} == shards
    assert "cannot be used" not in capsys.readouterr().err
    (root / "toy/001_toy/images/9.png").unlink()
    fewer = open_sequences(TINY, root, CPU)
    assert len(fewer.names) == 2 and "1 sequence of" in (said := capsys.readouterr().err) and "cannot be used" in said
    stated = tmp_path / "split.json"
    stated.write_text(json.dumps({"train": ["000_toy"], "test": ["002_toy"]}))
    named = open_sequences(replace(TINY, split_file=stated), root, CPU)
    assert dict(zip(named.names, named.splits, strict=True)) == {"toy/000_toy": "train", "toy/002_toy": "test"}


def test_frames_are_those_asked_for(tmp_path):
    folder = prepared(tmp_path, {"train-a": "moves", "test-b": "moves"})
    resident, read = (open_sequences(replace(TINY, memory=memory), folder, CPU) for memory in (1.0, 0.0))
    sequence, frame = torch.tensor([0, 1, 1]), torch.tensor([5, 0, 2])
    assert torch.equal(resident(sequence, frame), read(sequence, frame))
    assert torch.equal(resident(sequence[:1], frame[:1]), resident.scaled(resident.resident[5:6]))
    assert resident(sequence, frame).abs().max() <= 1


def test_sequences_that_cannot_be_evaluated_are_named(tmp_path):
    cameras = {"train-a": "moves", "test-a": "moves", "test-b": "stands", "test-c": "unknown"}
    frames = open_sequences(TINY, prepared(tmp_path, cameras), CPU)
    test = evaluable(frames, frames.members("test").tolist())
    a = frames.names.index("test-a")
    assert test.members == {skip: ([a] if skip <= 1 else []) for skip in test.members} and test.sequences == [a]
    assert "does not move" in test.reasons["test-b, skip 0"]
    assert test.reasons["test-c"] == "it has no camera poses"
    assert test.reasons["test-a, skip 9"] == "only 1 of its frames are left, and 3 are needed"
    assert frames.members("test", posed=True).tolist() == [a, frames.names.index("test-b")]


def test_mirrored_sequences_are_seen_by_mirrored_cameras(tmp_path):
    folder = prepared(tmp_path, {"train-a": "moves", "test-b": "moves"})
    for memory in (1.0, 0.0):
        frames = open_sequences(replace(TINY, memory=memory, mirrored=True), folder, CPU)
        a, b, twin = (frames.names.index(name) for name in ("train-a", "test-b", "train-a mirrored"))
        assert twin == 2 and frames.mirrored.tolist() == [False, False, True]
        assert frames.members("train").tolist() == [a, twin] and frames.members("test").tolist() == [b]
        frame = torch.tensor([3, 3])
        seen, other = frames.read(torch.tensor([a, twin]), frame)
        assert torch.equal(other, seen.flip(-1)) and not torch.equal(other, seen)
    # a camera and its mirror image see a point and its mirror image at mirrored places
    point = torch.tensor([0.3, -0.2, 4.0, 1.0], dtype=torch.float64)
    flip = torch.tensor([-1, 1, 1, 1], dtype=torch.float64)
    for pose, mirror in zip(frames.poses[a], frames.poses[twin], strict=True):
        torch.testing.assert_close(mirror.inverse() @ (flip * point), flip * (pose.inverse() @ point))
        assert mirror[:3, :3].det() > 0


def test_rendered_clips_are_added_to_a_folder(tmp_path):
    folder = prepared(tmp_path, {"train-a": "moves", "test-b": "moves"})
    for memory in (1.0, 0.0):
        frames = open_sequences(replace(TINY, memory=memory, rendered=0.5), folder, CPU)
        assert sorted(frames.splits[:2]) == ["test", "train"] and frames.splits[2:] == ["rendered"] * 2
        alone = open_sequences(replace(TINY, memory=memory), None, CPU)
        one, other = torch.tensor([3]), torch.tensor([1])
        assert torch.equal(frames(one, other), alone(torch.tensor([1]), other))
        assert torch.equal(frames.poses[3], alone.poses[1])
    assert frames.members("train", "rendered", posed=True).tolist() == [frames.names.index("train-a"), 2, 3]


def test_wrong_data_and_settings_are_refused(settings, tmp_path):
    """In one line, before anything is trained, and without a trace of the run."""
    moving = prepared(tmp_path / "moving", {"train-a": "moves", "test-a": "moves"})
    (tmp_path / "empty").mkdir()
    calls = [
        (Path("nowhere"), {}, "nowhere"),
        (tmp_path / "empty", {}, "holds neither prepared frames (parameters.json) nor CO3Dv2"),
        (moving, {"rank": 1000}, "rank 1000 must lie between 1 and"),
        (moving, {"size": 9}, "divisible by"),
        (
            prepared(tmp_path / "untested", {"train-a": "moves"}),
            {},
            "no sequence of the split test that can be evaluated: prepare two with",
        ),
        (
            prepared(tmp_path / "untrained", {"test-a": "moves"}),
            {},
            "no sequence of the split train, which the head is trained on: prepare more",
        ),
        (prepared(tmp_path / "blind", {"train-a": "unknown", "test-a": "moves"}), {}, "with camera poses"),
        (prepared(tmp_path / "still", {"train-a": "moves", "test-a": "stands"}), {}, "does not move"),
        (
            prepared(tmp_path / "unknown", {"train-a": "moves", "test-a": "unknown"}),
            {},
            "(test-a: it has no camera poses): test on another by `niso data prepare video … --test NAME`, or correct",
        ),
    ]
    for data, changes, message in calls:
        with pytest.raises(InputError) as error:
            runner.run(replace(settings(**changes), data_dir=data), tmp_path / "run")
        assert message in str(error.value) and "\n" not in str(error.value)
        assert not (tmp_path / "run").exists()


def test_a_wrong_call_is_refused(refused, tmp_path):
    folder = prepared(tmp_path, {"train-a": "moves"})
    words = ["run", "pose", "--data-dir", folder, "--out", tmp_path / "run"]
    assert "did you mean vit?" in refused(*words, "--method", "dit")
    assert "must be a multiple of head_group (3)" in refused(*words, "--head-group", 3)
    assert "no sequence of the split test" in refused(*words, "--size", 8, "--rank", 1)
    assert not (tmp_path / "run").exists()


def test_a_cache_that_cannot_be_written_to_is_named(cache):
    (cache / "clips").write_text("")
    with pytest.raises(InputError, match=r"cannot write to the cache .*clips .*set XDG_CACHE_HOME"):
        open_sequences(TINY, None, CPU)


def test_shares_of_sequences_are_spread_and_exclude_their_mirrored_copies():
    names = [f"s{number}" for number in range(10)]
    source = Source(names, ["train"] * 10, [2] * 10, [None] * 10, lambda s, f: torch.zeros(2, 3, 4, 4).byte())
    frames = Frames(source, 4, 1.0, CPU, mirrored=True)
    members = frames.members("train")
    assert len(members) == 20
    assert frames.chosen_evenly(members, 0.3).tolist() == [0, 3, 6] and not len(frames.chosen_evenly(members, 0.0))
    kept = frames.without(members, torch.tensor([0, 3, 6]))
    assert sorted(frames.names[number].split()[0] for number in kept) == sorted(
        2 * [n for n in names if n not in ("s0", "s3", "s6")]
    )
    assert frames.without(members, frames.chosen_evenly(members, 0.0)).tolist() == members.tolist()
    assert frames.chosen_evenly(members[:5], 0.05).tolist() == [0] and not len(frames.chosen_evenly(members[:4], 0.05))


@pytest.mark.parametrize("share", [0.125, 0.25, 0.5])
def test_shares_are_of_all_categories_where_there_are_enough(share):
    def frames(*categories):
        names = [f"{categories[number % len(categories)]}/{number}" for number in range(32)]
        source = Source(names, ["train"] * 32, [2] * 32, [None] * 32, lambda s, f: torch.zeros(2, 3, 4, 4).byte())
        return Frames(source, 4, 0.0, CPU)

    alternate = frames("orbit", "walk")
    chosen = alternate.chosen_evenly(alternate.members("train"), share).tolist()
    assert len(set(chosen)) == len(chosen) == 32 * share and chosen == sorted(chosen)
    assert sum(number % 2 for number in chosen) == len(chosen) / 2
    for others in (frames("orbit"), frames(*map(str, range(32)))):  # one category, and too many
        assert others.chosen_evenly(others.members("train"), share).tolist() == list(range(0, 32, round(1 / share)))


def test_footage_is_neither_mirrored_nor_rendered_where_there_is_other():
    names = [f"s{number}" for number in range(4)]
    read = lambda s, f: torch.zeros(2, 3, 4, 4).byte()  # noqa: E731
    for splits, expected in ((["train", "rendered", "train", "rendered"], [0, 2]), (["rendered"] * 4, [0, 1, 2, 3])):
        frames = Frames(Source(names, splits, [2] * 4, [None] * 4, read), 4, 1.0, CPU, mirrored=True)
        assert frames.footage(frames.members("train", "rendered")).tolist() == expected


def test_frames_need_two_to_be_a_pair():

    source = Source(["a", "b"], ["train"] * 2, [1, 2], [None] * 2, lambda s, f: torch.zeros(s + 1, 3, 4, 4).byte())
    frames = Frames(source, 4, 1.0, CPU)
    assert frames.members("train").tolist() == [1] and not len(frames.members("train", posed=True))

"""Trajectories that a trained run predicts for new video, and `niso pose`."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import roma
import torch
from PIL import Image

import niso
from niso.cli import pose as pose_cli
from niso.cli.parsing import parse
from niso.config import read_yaml, to_yaml
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Sequence
from niso.data.video.stream import TimedFrame, open_stream
from niso.errors import InputError, NisoError
from niso.experiments.pose import evaluation as pose_evaluation
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.inference import PoseReader, PredictedTrajectory, load_reader, predict, write_tum
from niso.experiments.pose.predictors.constant_motion import ConstantMotion
from niso.experiments.settings import Settings
from niso.figures.path_views import path_views
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.hub import bundled
from niso.runs import runner
from niso.training import checkpoint
from niso.training.run import Run

CPU = torch.device("cpu")
MADE = ("niso", "nft", "vit", "constant-motion")
TRAINABLE = [method for method in Pose.methods() if method not in ("dinov2", "beit")]  # need no model of others


@pytest.fixture(scope="session")
def make_run(
    settings: Callable[..., Settings], prepared_frames: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Run folders as a training leaves them, by method, with random weights."""
    runs = dict[str, Path]()

    def make(method: str = "niso") -> Path:
        if method not in runs:
            chosen = settings(method, head_skip=9)
            folder = Run.create(tmp_path_factory.mktemp("runs") / method, chosen.dump())
            torch.manual_seed(7)
            *_, phase = Pose(chosen.config, method, 0, prepared_frames, CPU).phases()
            tensors = {
                name: value + 0.1 * torch.randn_like(value) for name, value in phase.objective.state_dict().items()
            }
            checkpoint.save(folder.path / "weights.safetensors", tensors, {})
            folder.write("metrics", {})
            runs[method] = folder.path
        return runs[method]

    return make


@pytest.fixture
def pose(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Calls `niso pose`: status, output, and messages or the error."""

    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = parse(pose_cli.Options, "niso pose", [str(word) for word in words])()
        except NisoError as error:
            return 2, capsys.readouterr().out, str(error)
        return status, *capsys.readouterr()

    return call


def images(folder: Path, count: int, size: tuple[int, int] = (12, 10)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = torch.randint(256, (size[1], size[0], 3), generator=torch.Generator().manual_seed(number)).byte()
        Image.fromarray(pixels.numpy()).save(folder / f"frame{number}.png")
    return folder


def read_tum(path: Path) -> tuple[list[float], torch.Tensor]:
    """Times, and camera-to-world poses."""
    rows = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    numbers = torch.tensor([[float(value) for value in row] for row in rows], dtype=torch.float64)
    return numbers[:, 0].tolist(), se3.pose(roma.unitquat_to_rotmat(numbers[:, 4:]), numbers[:, 1:4])


class Oracle(ConstantMotion):
    """Knows the poses of all frames: the first pixel is the frame's number."""

    def __init__(self, poses: torch.Tensor) -> None:
        super().__init__()
        self.poses = poses

    def features(self, frames: torch.Tensor) -> torch.Tensor:
        return ((frames[:, 0, 0, 0] + 1) * 127.5).round()

    def numbers(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        identity = torch.eye(4, dtype=self.poses.dtype)
        motions = se3.relative(self.poses[first.long()], self.poses[second.long()])
        return se3.to_parameters(motions) - se3.to_parameters(identity)


def oracle(poses: torch.Tensor) -> PoseReader:
    return PoseReader(Oracle(poses), 2, 9, CPU)


def numbered(count: int) -> list[TimedFrame]:
    return [TimedFrame(0.1 * number, torch.full((3, 2, 2), number, dtype=torch.uint8)) for number in range(count)]


@pytest.mark.parametrize("count", [2, 3, 64, 65, 128, 129, 150])
def test_true_motions_compose_to_the_truth_across_batches(dtype, tolerance, count, generator, random_poses):
    poses = random_poses(count, generator, dtype=dtype)
    reported = []
    predicted = predict(oracle(poses), iter(numbered(count)), reported.append)
    expected = se3.inverse(poses[0].double()) @ poses.double()
    assert predicted.times == [0.1 * number for number in range(count)] and predicted.ending == ""
    torch.testing.assert_close(predicted.poses, expected, atol=count * tolerance, rtol=0)
    assert torch.equal(predicted.poses[0], torch.eye(4, dtype=torch.float64))
    assert reported == [*range(64, count, 64), count]


@pytest.mark.parametrize("count", [2, 3, 65, 130])
def test_several_distances_agree_on_the_truth_across_batches(dtype, tolerance, count, generator, random_poses):
    poses = random_poses(count, generator, dtype=dtype)
    predicted = predict(oracle(poses), iter(numbered(count)), reach=5)
    expected = se3.inverse(poses[0].double()) @ poses.double()
    torch.testing.assert_close(predicted.poses, expected, atol=count * tolerance, rtol=0)


def test_tum_files(tmp_path, generator, random_poses):
    poses = random_poses(9, generator, dtype=torch.float64)
    write_tum(tmp_path / "deep/t.txt", PredictedTrajectory([0.04 * n for n in range(9)], poses, ""))
    lines = (tmp_path / "deep/t.txt").read_text().splitlines()
    assert lines[1] == "# timestamp tx ty tz qx qy qz qw" and "scale is arbitrary" in lines[0]
    times, back = read_tum(tmp_path / "deep/t.txt")
    assert times == pytest.approx([0.04 * n for n in range(9)])
    torch.testing.assert_close(back, poses, atol=1e-7, rtol=0)


@pytest.mark.parametrize("method", MADE)
def test_the_loaded_run_predicts_what_its_evaluation_saw(make_run, prepared_frames, method):
    run = make_run(method)
    reader = load_reader(run)
    settings = Settings.of(Run.open(run))
    experiment = Pose(settings.config, method, 0, prepared_frames, CPU)
    number = experiment.frames.names.index("test1")
    for skip in (0, 3):
        predicted = predict(reader, open_stream(prepared_frames, reader.size, skip + 1, "test1").frames)
        encoded = pose_evaluation.features(reader.predictor, experiment.frames, number)
        with torch.no_grad():
            motions = pose_evaluation.between(reader.predictor, encoded, {skip: 1})[skip][1]
        torch.testing.assert_close(predicted.poses, trajectory.compose(motions.double()), atol=1e-4, rtol=1e-4)
        assert predicted.times == [float(n) for n in range(0, 24, skip + 1)]


def test_frames_of_another_size_give_the_same_numbers_in_both(make_run, tmp_path):
    """`niso pose` and the evaluation of a run resize the frames of a prepared folder alike."""
    files = images(tmp_path / "noise", 6, (21, 21))
    poses = se3.exp(0.1 * torch.randn(6, 6, dtype=torch.float64).cumsum(0)).numpy()
    paths = [files / f"frame{number}.png" for number in range(6)]
    sequences = [Sequence(name, paths, list(range(6)), poses, split) for name, split in (("a", "train"), ("b", "test"))]
    prepare(sequences, tmp_path / "prepared", preparation=Preparation(size=21, min_frames=3))
    reader = load_reader(make_run())
    settings = Settings.of(Run.open(make_run()))
    frames = Pose(settings.config, "niso", 0, tmp_path / "prepared", CPU).frames
    read = list(open_stream(tmp_path / "prepared", reader.size, sequence="b").frames)
    assert torch.equal(torch.stack([frame.image for frame in read]), frames.read(torch.ones(6).long(), torch.arange(6)))
    evaluated = pose_evaluation.evaluate(reader.predictor, frames, pose_evaluation.evaluable(frames, [1]))
    predicted = predict(reader, read).poses
    error = trajectory.ate_normalised(se3.translation(predicted), torch.from_numpy(poses[:, :3, 3]))
    assert float(error) == pytest.approx(evaluated.metrics["ate_normalised_skip0"], abs=1e-5)


def test_a_finished_run(trained, tiny_pose):
    reader = load_reader(trained)
    stored = checkpoint.load(trained / "weights.safetensors")[0]
    assert {f"predictor.{name}" for name in reader.predictor.state_dict()} == stored.keys()
    assert all(torch.equal(stored[f"predictor.{k}"], v) for k, v in reader.predictor.state_dict().items())
    assert not reader.predictor.training and (reader.size, reader.head_skip) == (tiny_pose.size, tiny_pose.head_skip)


def test_the_settings_of_the_process_are_left_alone(make_run, monkeypatch):
    """The number of torch's threads and the C library's allocation, unless asked for."""
    tuned = list[object]()
    monkeypatch.setattr("niso.training.processes.keep_freed_memory", lambda: tuned.append("memory"))
    monkeypatch.setattr(torch, "set_num_threads", tuned.append)
    load_reader(make_run())
    assert not tuned
    load_reader(make_run(), tune=True)
    assert tuned == [1, "memory"]


@pytest.mark.parametrize("method", TRAINABLE)
def test_untrained_predictors_have_the_tensors_of_trained_ones(make, method):
    experiment = make(method)
    list(experiment.phases())
    shapes = {name: value.shape for name, value in experiment.predictor.state_dict().items()}
    built, frames = Pose.kind(method).build(experiment.config), torch.rand(1, 3, 8, 8)
    built.complete([(frames, frames)])
    assert {name: value.shape for name, value in built.state_dict().items()} == shapes


def test_a_run_that_is_trained_further_is_not_read_before_its_end(pose, trained, tmp_path, monkeypatch):
    """Its weights are those of before, whichever command is asked."""
    values = read_yaml(trained / "config.yaml")
    values["config"]["head"]["steps"] += 2
    (trained / "config.yaml").write_text(to_yaml(values))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("niso.experiments.pose.losses.PoseObjective.forward", interrupt)
        runner.resume(trained)
    assert (trained / "weights.safetensors").exists() and not (trained / "metrics.json").exists()
    status, _, err = pose(images(tmp_path / "walk", 4), "--checkpoint", trained, "--out", tmp_path / "out")
    assert status == 2 and err == f"{trained} is not trained to its end: finish it by `niso resume {trained}`"
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError) as refused:
        niso.load(trained)
    assert str(refused.value) == err
    runner.resume(trained)
    assert pose(images(tmp_path / "walk", 4), "--checkpoint", trained, "--out", tmp_path / "out")[0] == 0


@pytest.mark.usefixtures("drawn")
def test_a_video_file(pose, make_run, write_video, tmp_path):
    video = write_video(tmp_path / "walk.mp4")
    status, out, err = pose(video, "--checkpoint", make_run(), "--skip", "2", "-o", tmp_path / "out")
    assert status == 0, err
    assert out == (
        f"4 poses in {tmp_path / 'out/trajectory.txt'}, drawn in {tmp_path / 'out/trajectory.png'}; "
        "their scale is arbitrary\n"
    )
    times, poses = read_tum(tmp_path / "out/trajectory.txt")
    assert times == pytest.approx([0.0, 0.3, 0.6, 0.9]) and poses.shape == (4, 4, 4)
    with Image.open(tmp_path / "out/trajectory.png") as picture:
        assert picture.size[0] > 100
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["trajectory.png", "trajectory.txt"]


def test_a_picture_is_not_put_among_the_frames_and_a_full_disk_leaves_none(pose, make_run, tmp_path, monkeypatch):
    run, frames = make_run(), images(tmp_path / "walk", 4)
    before = sorted(frames.iterdir())
    status, _, err = pose(frames, "--checkpoint", run, "-o", frames)
    assert status == 2 and "would write pictures into" in err and sorted(frames.iterdir()) == before

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("niso.experiments.pose.inference.write_tum", full)
    with pytest.raises(OSError, match="No space left"):
        pose(frames, "--checkpoint", run, "-o", tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.png"))
    monkeypatch.undo()
    assert pose(frames, "--checkpoint", run, "-o", tmp_path / "out")[0] == 0


def test_a_folder_of_frames_and_a_prepared_one(pose, make_run, prepared_frames, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = make_run()
    assert pose(images(tmp_path / "walk", 12), "--checkpoint", run)[0] == 0
    times, poses = read_tum(Path("poses/walk/trajectory.txt"))
    assert times == [float(number) for number in range(12)] and bool(poses.isfinite().all())
    for name, words in (("test0", []), ("neighbours", ["--no-average", "--out", "poses/neighbours"])):
        assert pose(prepared_frames, "--checkpoint", run, "--sequence", "test0", *words)[0] == 0
        assert len(read_tum(Path(f"poses/{name}/trajectory.txt"))[0]) == 24
    averaged, composed = (Path(f"poses/{name}/trajectory.txt").read_text() for name in ("test0", "neighbours"))
    assert averaged != composed
    # of every fifth frame, second neighbours are as far apart as any that the model was trained on
    words = ["--sequence", "test0", "--skip", "4", "--out", "poses/fifth"]
    assert pose(prepared_frames, "--checkpoint", run, *words)[0] == 0
    reader = load_reader(run)
    expected = predict(reader, open_stream(prepared_frames, reader.size, 5, "test0").frames, reach=2)
    torch.testing.assert_close(read_tum(Path("poses/fifth/trajectory.txt"))[1], expected.poses, atol=1e-6, rtol=0)


def test_without_a_checkpoint_the_model_of_the_package_says_what_to_expect(pose, tmp_path):
    status, out, err = pose(images(tmp_path / "walk", 4), "--out", tmp_path / "out")
    assert status == 0 and out.startswith("4 poses in ")
    assert err.startswith(f"by the model pose that comes with niso. {bundled.find('pose').about}\n")


def test_a_saved_model_keeps_its_head(pose, trained, tmp_path):
    niso.load(trained).save(tmp_path / "saved")
    again = niso.load(tmp_path / "saved").save(tmp_path / "again")
    paths = [trained, trained / "weights.safetensors", tmp_path / "saved", again, again / "model.safetensors"]
    for number, path in enumerate(paths):
        assert pose(images(tmp_path / "walk", 4), "--checkpoint", path, "--out", tmp_path / str(number))[0] == 0
    assert len({(tmp_path / str(number) / "trajectory.txt").read_text() for number in range(len(paths))}) == 1


def test_what_cannot_be_read_to_its_end(pose, make_run, write_video, tmp_path):
    video = write_video(tmp_path / "cut.mp4", faststart=True)
    video.write_bytes(video.read_bytes()[: video.stat().st_size * 3 // 4])
    status, out, err = pose(video, "--checkpoint", make_run(), "--out", tmp_path / "cut")
    assert status == 3 and "the trajectory ends early: cut.mp4 is truncated" in err
    count = len(read_tum(tmp_path / "cut/trajectory.txt")[0])
    assert 2 <= count < 12 and out.startswith(f"{count} poses in ")
    for name, harm, words in (
        ("damaged", lambda path: path.write_bytes(path.read_bytes()[:60]), "frame7.png cannot be read"),
        ("mixed", lambda path: Image.new("RGB", (20, 10)).save(path), "of mixed sizes (12×10 and 20×10 pixels)"),
    ):
        harm(images(tmp_path / name, 12) / "frame7.png")
        status, _, err = pose(tmp_path / name, "--checkpoint", make_run(), "--out", tmp_path / "out" / name)
        assert status == 3 and words in err
        assert len(read_tum(tmp_path / "out" / name / "trajectory.txt")[0]) == 7


def test_poses_that_are_not_finite_are_never_written(pose, make_run, tmp_path):
    run = Path(shutil.copytree(make_run("constant-motion"), tmp_path / "run"))
    tensors, facts = checkpoint.load(run / "weights.safetensors")
    tensors["predictor.translation"][1] = float("nan")
    checkpoint.save(run / "weights.safetensors", tensors, facts)
    status, _, err = pose(images(tmp_path / "walk", 3), "--checkpoint", run, "--out", tmp_path / "out")
    assert status == 2 and "are not finite" in err and not (tmp_path / "out").exists()


def test_equal_frames_are_noted(pose, make_run, tmp_path):
    still = images(tmp_path / "still", 4)
    for path in sorted(still.iterdir())[1:3]:
        shutil.copy(sorted(still.iterdir())[0], path)
    status, _, err = pose(still, "--checkpoint", make_run(), "--out", tmp_path / "out")
    assert status == 0 and "! 2 of 3 pairs of neighbouring frames are equal" in err


def test_skips_beyond_those_of_training_are_noted(pose, make_run, tmp_path):
    walk = images(tmp_path / "walk", 23)
    status, _, err = pose(walk, "--checkpoint", make_run(), "--skip", "10", "--out", tmp_path / "out")
    assert status == 0 and "trained on at most 9 frames left out" in err


def test_wrong_calls(pose, make_run, prepared_frames, torus_run, tmp_path):
    run, walk = make_run(), images(tmp_path / "walk", 3)
    (tmp_path / "text.mp4").write_text("no video")
    (tmp_path / "empty").mkdir()
    images(tmp_path / "one", 1)
    unfinished = Path(shutil.copytree(run, tmp_path / "unfinished"))
    (unfinished / "weights.safetensors").unlink()
    broken = Path(shutil.copytree(run, tmp_path / "broken"))
    (broken / "weights.safetensors").write_bytes(b"no weights")
    other = Path(shutil.copytree(make_run("vit"), tmp_path / "other"))
    shutil.copy(run / "weights.safetensors", other)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/trajectory.txt").touch()
    (run / "checkpoints").mkdir()
    (run / "checkpoints/head.safetensors").touch()
    out = tmp_path / "out"
    calls = {
        (): "VIDEO",
        (tmp_path / "one",): "at least two frames are needed, after any --skip, and there is 1",
        (tmp_path / "empty",): "holds no images",
        (walk, "--checkpoint", run, "--skip", "-1"): "skip",
        (walk, "--checkpoint", run, "--skip", "2"): "at least two frames are needed, after any --skip, and there is 1",
        (tmp_path / "one", "--checkpoint", run): "at least two frames are needed, after any --skip, and there is 1",
        (walk, "--checkpoint", run, "--sequence", "a"): "is not a prepared folder",
        (walk, "--checkpoint", tmp_path / "empty"): "is neither a run folder nor a saved model",
        (walk, "--checkpoint", run / "checkpoints/head.safetensors"): "give the run folder",
        (walk, "--checkpoint", torus_run): "is a run of torus",
        (walk, "--checkpoint", unfinished): "finish it by `niso resume",
        (walk, "--checkpoint", broken): "truncated or not one of niso's",
        (walk, "--checkpoint", other): "is of another model",
        (walk, "--checkpoint", run, "--out", tmp_path / "full"): "is there already: choose another folder",
        (tmp_path / "nowhere", "--checkpoint", run): "does not exist",
        (tmp_path / "empty", "--checkpoint", run): "holds no images",
        (tmp_path / "text.mp4", "--checkpoint", run): "text.mp4 cannot be decoded",
        (prepared_frames, "--checkpoint", run): "holds 6 sequences: choose one by --sequence (blind, test0",
        (prepared_frames, "--checkpoint", run, "--sequence", "tst0"): "no sequence 'tst0'; did you mean test0?",
    }
    for words, message in calls.items():
        status, out_text, err = pose(*words, *([] if "--out" in words else ["--out", out]))
        assert status == 2 and out_text == "" and message in err, (words, err)
        assert "\n" not in err and not out.exists()


def test_the_picture_shows_a_path_as_it_is():
    """Three steps forward, one to the right, one up: y points down."""
    path = torch.tensor([[0.0, 0, 0], [0, 0, 3], [1, 0, 3], [1, -1, 3]], dtype=torch.float64)
    above, side, behind = path_views(path).axes
    drawn = {axes.get_title(): axes.lines[0].get_xydata().tolist() for axes in (above, side, behind)}
    assert drawn["from above"] == [[0, 0], [0, 3], [1, 3], [1, 3]]
    assert drawn["from the side"] == [[0, 0], [3, 0], [3, 0], [3, 1]]
    assert drawn["from behind"] == [[0, 0], [0, 0], [1, 0], [1, 1]]
    widths = {
        round(float(high - low), 6)
        for axes in (above, side, behind)
        for low, high in (axes.get_xlim(), axes.get_ylim())
    }
    assert widths == {3.3}


def test_an_error_in_the_first_frame_is_the_error(tmp_path):
    def frames():
        raise InputError("nothing can be read")
        yield

    with pytest.raises(InputError, match="nothing can be read"):
        predict(oracle(torch.eye(4).expand(1, 4, 4)), frames())

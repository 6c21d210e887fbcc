"""Trajectories that a pose run keeps, and the page that shows them."""

import shutil
import sys
import urllib.request
from pathlib import Path

import pytest
import torch

from niso.cli import view as view_cli
from niso.cli.parsing import parse
from niso.errors import InputError
from niso.experiments.pose import view as pose_view
from niso.experiments.pose.trajectories import FILE, IMAGES, Trajectories, read
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.geometry.trajectories import SKIPS
from niso.runs import runner
from niso.training import checkpoint
from niso.training.run import Run


@pytest.fixture
def run(trained) -> Path:
    return trained


def a_sequence(dtype: torch.dtype = torch.float64, frames: int = 21) -> Trajectories:
    """Right predictions, but for their scale, at skips 0 and 3."""
    truth = trajectory.compose(se3.exp(0.2 * torch.randn(frames - 1, 6, dtype=torch.float64))).to(dtype)
    motions = {}
    for skip in (0, 3):
        exact = trajectory.relative_poses(trajectory.subsample(truth, skip))
        motions[skip] = se3.pose(se3.rotation(exact), 7 * se3.translation(exact))
    return Trajectories(truth, motions, torch.tensor([0, 5]), torch.zeros(2, 3, 4, 4, dtype=torch.uint8))


def test_a_run_keeps_the_trajectories_that_its_metrics_are_of(run):
    sequences, metrics = read(run), Run(run).metrics
    assert list(sequences) == ["test0", "test1"]
    for skip in SKIPS:
        errors = []
        for sequence in sequences.values():
            poses = (trajectory.compose(sequence.motions[skip].double()), trajectory.subsample(sequence.truth, skip))
            errors.append(trajectory.ate_normalised(*map(se3.translation, poses)))
        assert float(torch.stack(errors).mean()) == pytest.approx(metrics[f"ate_normalised_skip{skip}"], rel=1e-4)
    for sequence in sequences.values():
        assert sequence.images.dtype == torch.uint8 and sequence.images.shape[1:] == (3, 8, 8)
        assert len(sequence.images) == len(sequence.numbers) <= IMAGES and sequence.numbers[0] == 0


def without(part: str):
    return lambda stored: {key: value for key, value in stored.items() if not key.endswith(part)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("/images"), "test0/images"),
        (without("/true"), "it holds no sequence"),
        (lambda stored: {**stored, "test1/skip3": torch.eye(4)[None]}, "test1/skip3 does not fit test1/true"),
        (lambda stored: {**stored, "test0/numbers": stored["test0/numbers"] + 1000}, "images of test0"),
        (lambda stored: {**stored, "test0/skipx": torch.eye(4)[None]}, "invalid literal"),
        (lambda stored: {**stored, "test1/true": stored["test1/true"] * torch.nan}, "poses of test1 are not finite"),
    ],
)
def test_damaged_files_are_refused(run, change, message):
    path = run / f"{FILE}.safetensors"
    checkpoint.save(path, change(checkpoint.load(path)[0]), {})
    with pytest.raises(InputError, match=f"is damaged .*{message}.*`niso evaluate {run}` writes it anew"):
        read(run)
    path.write_bytes(b"no such thing")
    with pytest.raises(InputError, match="is damaged"):
        read(run)


def test_evaluation_writes_it_anew(run):
    before = checkpoint.load(run / f"{FILE}.safetensors")[0]
    (run / f"{FILE}.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no trajectories\.safetensors"):
        read(run)
    runner.evaluate(run)
    after = checkpoint.load(run / f"{FILE}.safetensors")[0]
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


def test_right_predictions_of_another_scale_lie_on_the_truth(dtype):
    runs = {"mine": {"walk": a_sequence(dtype)}}
    for skip in pose_view.skips(runs, "walk"):
        shown = pose_view.scene(runs, "walk", skip)
        torch.testing.assert_close(shown.predicted["mine"], shown.truth[:: skip + 1], atol=1e-3, rtol=1e-3)
        assert shown.errors["mine"] < 1e-3
    assert float(se3.translation(shown.truth).abs().max()) <= pose_view.EXTENT
    assert float(shown.up.norm()) == pytest.approx(1)


def test_alignment_undoes_a_similarity():
    truth, scale = a_sequence().truth, 0.3
    rotation, shift = se3.rotation(se3.exp(torch.randn(6, dtype=torch.float64))), torch.randn(3, dtype=torch.float64)
    moved = se3.pose(rotation @ se3.rotation(truth), scale * se3.translation(truth) @ rotation.mT + shift)
    torch.testing.assert_close(pose_view.aligned(moved, truth), truth, atol=1e-9, rtol=0)


def test_the_error_is_that_of_the_paths_that_are_drawn():
    """A path and its reflection differ, though no metric of the paper's table tells them apart."""
    truth, _, *images = a_sequence()
    mirrored = se3.pose(se3.rotation(truth), -se3.translation(truth))
    predicted = Trajectories(truth, {0: trajectory.relative_poses(mirrored)}, *images)
    shown = pose_view.scene({"mine": {"a": predicted}}, "a", 0)
    drawn, true = se3.translation(shown.predicted["mine"]), se3.translation(shown.truth)
    assert shown.errors["mine"] == pytest.approx(float((drawn - true).norm() / (true - true.mean(0)).norm()), rel=1e-3)
    assert shown.errors["mine"] > 0.05


def test_a_camera_predicted_to_stand_still_is_in_the_middle():
    truth = a_sequence().truth
    still = torch.eye(4, dtype=torch.float64).expand_as(truth)
    places = se3.translation(pose_view.aligned(still, truth))
    torch.testing.assert_close(places, se3.translation(truth).mean(0).expand_as(places))


def test_several_runs_are_told_apart(run, tmp_path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    assert list(pose_view.read_runs([run, other])) == [f"quick · niso · seed 0 ({folder})" for folder in (run, other)]
    assert pose_view.read_runs([tmp_path]).keys() == pose_view.read_runs([other, run]).keys()
    assert list(pose_view.read_runs([run])) == ["quick · niso · seed 0"]
    with pytest.raises(InputError, match="given twice"):
        pose_view.read_runs([run, run])
    path = other / f"{FILE}.safetensors"
    stored = checkpoint.load(path)[0]
    checkpoint.save(path, {**stored, "test0/true": stored["test0/true"].flip(0)}, {})
    with pytest.raises(InputError, match="test0 differ: these runs were tested on different data"):
        pose_view.read_runs([run, other])


def test_only_finished_runs_of_pose_are_shown(run, torus_run, tmp_path):
    with pytest.raises(InputError, match="is a run of torus: `niso view` shows runs of pose"):
        pose_view.read_runs([torus_run])

    (run / "metrics.json").unlink()
    with pytest.raises(InputError, match=f"is not finished: `niso resume {run}`"):
        pose_view.read_runs([run])
    with pytest.raises(InputError, match="is not a run folder: there is no such folder"):
        pose_view.read_runs([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "run"),
        ([".", "--port", "0"], "--port must be between 1 and 65535, got 0"),
        (["RUN", "--prot", "1"], "prot"),
    ],
)
def test_bad_calls_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        parse(view_cli.Options, "niso view", words)()


def test_the_page_answers_and_follows_what_is_chosen(run):
    pytest.importorskip("viser")
    runs = pose_view.read_runs([run])
    viewer = pose_view.Viewer(runs, 8123)
    try:
        with urllib.request.urlopen(viewer.address) as page:
            assert page.status == 200 and b"<html" in page.read()
        drawn = len(viewer._drawn)
        images = [len(sequence.numbers) for sequences in runs.values() for sequence in sequences.values()]
        assert drawn > 2 + images[0]
        viewer._sequence.value, viewer._skip.value = "test1", "9"
        viewer._choose()
        assert 2 + images[1] < len(viewer._drawn) < drawn
        viewer._cameras.value = False
        viewer.draw()
        assert len(viewer._drawn) == 2
        (only,) = viewer._runs.values()
        assert only.label.endswith(": orange") and "- orange, " in viewer._errors.content
        only.value = False
        viewer.draw()
        assert len(viewer._drawn) == 1
    finally:
        viewer.stop()


def test_the_command_says_where_the_page_is(run, capsys):
    pytest.importorskip("viser")
    parse(view_cli.Options, "niso view", [str(run), "--once", "--port", "8124"])()
    assert capsys.readouterr().out.startswith("http://localhost:81")


def test_without_viser_its_installation_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(InputError, match=r"^`niso view` needs viser: pip install 'viser>=0.2.12'$"):
        parse(view_cli.Options, "niso view", [str(run)])()

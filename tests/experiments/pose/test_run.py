"""Runs of the pose experiment from their settings to their reports."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import niso
from niso.config import Hardware
from niso.data.video.prepared import RECORD
from niso.data.video.stream import open_stream
from niso.errors import InputError
from niso.experiments.pose import evaluation as pose_evaluation
from niso.experiments.pose import passing, rooms
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.inference import load_reader, predict
from niso.experiments.pose.sources import open_sequences
from niso.experiments.pose.trajectories import read
from niso.experiments.settings import Settings
from niso.results import RUN_METRICS
from niso.runs import runner
from niso.training.run import Run

ROOT = Path(__file__).parents[3]
VALIDATION = {metric.key for metric in pose_evaluation.VALIDATION_METRICS}


def test_a_run_leaves_metrics_facts_and_a_report(trained):
    run = Run.open(trained)
    assert run.finished and (trained / "report.html").exists()
    others = {metric.key for metric in (*passing.METRICS, *rooms.METRICS)} | {"seconds_completion"}
    assert run.metrics.keys() == {metric.key for metric in (*Pose.metrics, *RUN_METRICS)} - others
    assert run.facts["test_sequences"] == ["test0", "test1"] and run.facts["validation_sequences"] == ["train0"]
    assert VALIDATION <= run.described.keys()


@pytest.mark.parametrize(
    ("method", "precision"),
    [("niso", "64-true"), ("niso", "bf16-mixed"), ("niso", "32-true"), ("vit", "64-true"), ("vit", "bf16-mixed")],
)
def test_runs_of_every_precision_end_and_are_read_in_it(
    settings, trained_once, prepared_frames, tmp_path, method, precision
):
    """What a run predicts for new video is what its evaluation predicted, with encoder and head in its precision."""
    run = trained_once
    if (method, precision) != ("niso", "32-true"):
        run = tmp_path / "run"
        runner.run(settings(method, precision), run)
    assert all(value >= 0 for value in Run.open(run).metrics.values())
    reader = load_reader(run)
    dtype = torch.float64 if precision == "64-true" else torch.float32
    assert {value.dtype for value in reader.predictor.state_dict().values()} == {dtype}
    frames = open_sequences(settings().config, prepared_frames, reader.device)
    number = frames.names.index("test1")
    with torch.no_grad(), reader.predictor.precision():
        encoded = pose_evaluation.features(reader.predictor, frames, number)
        motions = reader.predictor(encoded[:-1], encoded[1:])
    torch.testing.assert_close(motions.float(), read(run)["test1"].motions[0], atol=1e-5, rtol=1e-5)
    outputs = list[torch.dtype]()
    parts = [reader.predictor.head, reader.predictor.model.encoder] if method == "niso" else [reader.predictor.network]
    for part in parts:
        part.register_forward_hook(lambda module, inputs, output: outputs.append(output.dtype))
    predict(reader, open_stream(prepared_frames, reader.size, 1, "test1").frames)
    assert set(outputs) == {torch.bfloat16 if precision == "bf16-mixed" else dtype}


def test_settings_are_dumped_and_loaded(settings):
    values = settings(validation=0.2).dump()
    assert values["config"]["validation"] == 0.2
    assert Settings.load(json.loads(json.dumps(values)), Path("config.yaml")) == settings(validation=0.2)
    assert asdict(Hardware()).keys() == values["hardware"].keys()


def test_a_saved_model_names_its_split_without_its_place(trained, tmp_path):
    model = niso.load(trained)
    model.settings = replace(model.settings, config=replace(model.settings.config, split_file=tmp_path / "split.json"))
    saved = model.save(tmp_path / "saved")
    assert str(tmp_path) not in (saved / "config.json").read_text(encoding="utf-8")
    assert niso.load(saved).settings.config.split_file == Path("split.json")


def test_a_run_is_not_evaluated_on_other_cameras(trained, prepared_frames, tmp_path):
    other = Path(shutil.copytree(prepared_frames, tmp_path / "other"))
    text = (trained / "config.yaml").read_text(encoding="utf-8")
    (trained / "config.yaml").write_text(text.replace(str(prepared_frames), str(other)), encoding="utf-8")
    runner.evaluate(trained)  # the same data in another place
    shard = next(other.rglob("*.frames"))
    content = bytearray(shard.read_bytes())
    last = np.frombuffer(content[-RECORD.itemsize :], RECORD).copy()
    last["pose"] = np.roll(last["pose"], 1)
    content[-RECORD.itemsize :] = last.tobytes()
    shard.write_bytes(content)
    with pytest.raises(InputError, match="its data has changed since it was trained"):
        runner.evaluate(trained)


def test_copies_of_a_sequence_that_are_trained_and_tested_on_are_named(make, prepared_frames, tmp_path):
    assert not make().announcement
    other = Path(shutil.copytree(prepared_frames, tmp_path / "other"))
    shards = [other / f"{name}.frames" for name in ("train0", "test0")]
    contents = [bytearray(shard.read_bytes()) for shard in shards]  # of 24 frames each
    train, test = (np.frombuffer(content[-24 * RECORD.itemsize :], RECORD).copy() for content in contents)
    test["word"] = train["word"]
    contents[1][-24 * RECORD.itemsize :] = test.tobytes()
    shards[1].write_bytes(contents[1])
    note = "train0 (trained on) and test0 (tested on) have most of their frames in common, so that metrics flatter"
    assert make(folder=other).announcement.startswith(note)

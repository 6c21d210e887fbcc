"""What is said of the sequences of a run: units that differ, cameras that do not move."""

import numpy as np
import pytest

from niso.data.video.clips import MOTIONS
from niso.experiments.pose.doubts import about_sequences, step_length
from niso.experiments.pose.presets import PRESETS


def test_sequences_in_other_units_are_named(make):
    experiment = make(translation_scale="norm")
    assert not experiment.announcement
    frames, split = experiment.frames, experiment.split
    number = frames.names.index("train1")
    poses = frames.posed(number).clone()
    poses[:, :3, 3] *= 1e3  # millimetres
    frames.poses[number] = poses
    for scale in ("norm", "projection"):
        note = about_sequences(frames, split, scale)
        assert note.startswith("the steps of train1 are ") and "times as long as those of train" in note
        assert note.endswith("with --translation-scale unit all count alike")
    assert not about_sequences(frames, split, "unit")
    poses[:, :3, 3] = 0  # a camera that only turns has no unit
    assert not about_sequences(frames, split, "norm")


def test_cameras_that_stand_still_are_named_where_they_are_trained_on(make):
    experiment = make()
    frames, split = experiment.frames, experiment.split
    for name in ("train1", "test0"):
        number = frames.names.index(name)
        frames.poses[number] = frames.posed(number)[:1].expand(len(frames.posed(number)), 4, 4)
    note = about_sequences(frames, split, "norm")
    assert note.startswith("the camera of train1, which the head is trained on, does not move: where the pictures do")
    number = frames.names.index("train2")
    frames.poses[number] = frames.posed(number)[:1].expand(len(frames.posed(number)), 4, 4)
    assert "does not move (nor that of 1 more)" in about_sequences(frames, split, "norm")


@pytest.mark.parametrize("preset", PRESETS)
def test_rendered_clips_of_presets_have_steps_of_one_order(preset):
    config = PRESETS[preset]
    paths = [
        MOTIONS[motion](config.clip_frames, np.random.default_rng(n)) for n in range(50) for motion in config.motions
    ]
    lengths = [step_length(path) for path in paths]
    assert max(lengths) < 7 * min(lengths)

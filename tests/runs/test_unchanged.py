"""What must not have changed since a run was trained (more in test_runner.py, by whole runs)."""

from dataclasses import fields

from niso.experiments import EXPERIMENTS
from niso.runs.unchanged import may_change


def test_an_experiment_names_what_its_metrics_alone_depend_on():
    changed = {"homnist": "test_digits", "pose": "test_frames", "torus": "evaluation_pairs", "pairs": "training.steps"}
    assert all(may_change(name, f"config.{setting}") for name, setting in changed.items())
    assert may_change("torus", "data_dir")
    fixed = {"homnist": "rank", "pose": "test_digits", "torus": "test_frames", "pairs": "training.learning_rate"}
    assert not any(may_change(name, f"config.{setting}") for name, setting in fixed.items())
    for experiment in map(EXPERIMENTS.find, EXPERIMENTS):
        assert experiment.evaluation_settings <= {field.name for field in fields(experiment.config_class)}

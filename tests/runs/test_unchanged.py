"""What must not have changed since a run was trained (more in test_runner.py, by whole runs)."""

from dataclasses import fields, replace

import pytest

from niso.config import to_yaml
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.homnist.presets import PRESETS
from niso.experiments.settings import Settings
from niso.runs.unchanged import differing, may_change, settings_as_trained
from niso.training.run import SETTINGS, Run

ACTION = replace(PRESETS["small"], action_settings={"deviation": 0.5})


@pytest.mark.parametrize("trained, asked", [(ACTION, PRESETS["small"]), (PRESETS["small"], ACTION)])
def test_a_setting_that_a_part_names_neither_comes_nor_goes(trained, asked, tmp_path):
    before, now = (Settings("homnist", "small", config) for config in (trained, asked))
    run = Run.create(tmp_path / "run", before.dump())
    run.write("facts", run.facts | {"settings": run.determining})
    assert settings_as_trained(run) == before
    (run.path / SETTINGS).write_text(to_yaml(now.dump()))
    with pytest.raises(InputError, match=r"action_settings is .*, but the run was trained with .*: undo that"):
        settings_as_trained(Run(run.path))
    assert differing(before.dump(), now.dump()) == ["config.action_settings"]
    assert not may_change("homnist", "config.method_settings")  # also of a part that names "steps"


def test_an_experiment_names_what_its_metrics_alone_depend_on():
    changed = {"homnist": "test_digits", "pose": "test_frames", "torus": "evaluation_pairs", "pairs": "training.steps"}
    assert all(may_change(name, f"config.{setting}") for name, setting in changed.items())
    assert may_change("torus", "data_dir")
    fixed = {"homnist": "rank", "pose": "test_digits", "torus": "test_frames", "pairs": "training.learning_rate"}
    assert not any(may_change(name, f"config.{setting}") for name, setting in fixed.items())
    for experiment in map(EXPERIMENTS.find, EXPERIMENTS):
        assert experiment.evaluation_settings <= {field.name for field in fields(experiment.config_class)}

"""A part of a program's own is never taken for niso's part of the same name, nor the other way round."""

import json
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

import niso
from niso.errors import CheckpointError, InputError
from niso.experiments.registered import FACT, OF_MODEL, check_registered, naming_unknown, registered
from niso.experiments.settings import Settings
from niso.experiments.torus.presets import TorusConfig
from niso.geometry import ACTIONS
from niso.methods import METHODS
from niso.methods.isometry import Isometry
from niso.runs import runner
from niso.runs.unchanged import settings_as_trained
from niso.training.run import Run


class Mine(Isometry):
    """Maps the other way round."""

    def solve(self, a, b):
        return super().solve(b, a)


class Moved(Isometry):
    """Is Mine in another module."""


SETTINGS = Settings("torus", "quick", TorusConfig())
MINE, OWN = f"{__name__}.Mine", "niso.methods.isometry.Isometry"


@pytest.fixture
def elsewhere(monkeypatch):
    """A module that has a class of the same name."""
    module = ModuleType("elsewhere")
    module.Mine = Moved
    monkeypatch.setitem(sys.modules, "elsewhere", module)


def test_only_what_a_program_added_and_a_run_chose_is_told(monkeypatch):
    assert registered(SETTINGS, {}) == {}
    monkeypatch.setitem(METHODS, "unused", MINE)
    assert registered(SETTINGS, {}) == {}
    monkeypatch.setitem(METHODS, "niso", MINE)
    monkeypatch.setitem(ACTIONS, "turn", "a.B")
    assert registered(SETTINGS, {}) == {"method": {"niso": MINE}}
    assert registered(SETTINGS, {"chosen": {"transform": "turn"}}) == {
        "method": {"niso": MINE},
        "action": {"turn": "a.B"},
    }


@pytest.mark.usefixtures("elsewhere")
def test_names_mean_what_they_meant_in_training(monkeypatch, tmp_path):
    def check(names, **more):
        check_registered(tmp_path, SETTINGS, {FACT: {"method": names}} if names else more)

    check({})  # niso's own
    with pytest.raises(InputError, match=rf"was trained with {MINE} as the method niso, which is {OWN} here: register"):
        check({"niso": MINE})
    monkeypatch.setitem(METHODS, "niso", MINE)
    check({"niso": MINE})
    check({"niso": "tests.elsewhere.Mine"})  # moved
    with pytest.raises(InputError, match=r"trained with elsewhere\.Mine as the method niso"):  # of another package
        check({"niso": "elsewhere.Mine"})
    with pytest.raises(InputError, match=rf"was trained with {OWN} as the method niso, which is {MINE} here: register"):
        check({})
    with pytest.raises(InputError, match=r"trained with a\.Other as the method niso"):
        check({"niso": "a.Other"})
    for damaged in ([1], {"method": "niso"}):
        with pytest.raises(InputError, match="registered must be an object of objects"):
            check({}, **{FACT: damaged})


def test_a_method_may_have_the_name_of_a_baseline_for_poses(monkeypatch, tmp_path):
    settings = replace(SETTINGS, method="vit")
    monkeypatch.setitem(METHODS, "vit", MINE)
    assert registered(settings, {}) == {}
    check_registered(tmp_path, settings, {})


def test_models_need_what_they_are_made_of_alone(tmp_path):
    facts = {"chosen": {"transform": "mine"}, FACT: {"action": {"mine": "a.B"}}}
    check_registered(tmp_path, SETTINGS, facts, OF_MODEL)
    with pytest.raises(InputError, match=r"trained with a\.B as the action mine, which is unknown here"):
        check_registered(tmp_path, SETTINGS, facts)


def test_a_run_of_which_nothing_is_trained_begins_with_the_parts_of_now(tmp_path, monkeypatch):
    run = Run.create(tmp_path / "run", SETTINGS.dump())
    monkeypatch.setitem(METHODS, "niso", MINE)
    assert settings_as_trained(run) == SETTINGS
    run.checkpoint("pretrain").parent.mkdir()
    run.checkpoint("pretrain").touch()
    with pytest.raises(InputError, match=f"was trained with {OWN} as the method niso"):
        settings_as_trained(run)


@pytest.mark.slow
def test_runs_and_saved_models_are_opened_with_the_parts_that_they_were_trained_with(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "niso", MINE)
    monkeypatch.setitem(ACTIONS, "rotation", ACTIONS["affine"])
    x = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    words = {"transform": "rotation", "steps": 1, "batch_size": 4, "evaluation_pairs": 4, "progress": False}
    run, saved = tmp_path / "run", tmp_path / "saved"
    fitted = niso.fit(x, method="niso", out=run, **words)
    fitted.save(saved)
    expected = {"method": {"niso": MINE}, "action": {"rotation": ACTIONS["affine"]}}
    assert json.loads((run / "run.json").read_text())[FACT] == expected
    assert json.loads((saved / "config.json").read_text())["facts"][FACT] == expected
    for folder in (run, saved):
        assert np.allclose(niso.load(folder).map(x[:2], x[2:4]), fitted.map(x[:2], x[2:4]), atol=1e-5)
    with monkeypatch.context() as patch:
        patch.setattr(METHODS, "data", dict(METHODS.own))
        for call in (lambda: niso.load(run), lambda: niso.load(saved), lambda: runner.evaluate(run)):
            with pytest.raises(InputError, match=f"was trained with {MINE} as the method niso"):
                call()
        assert niso.load("torus").method.__class__ is Isometry
    with monkeypatch.context() as patch:
        patch.setattr(ACTIONS, "data", dict(ACTIONS.own))
        niso.load(run), niso.load(saved)
        (run / "metrics.json").unlink()
        with pytest.raises(InputError, match=r"as the action rotation, which is .*Rotations here"):
            runner.resume(run)
    with pytest.raises(InputError, match=f"was trained with {OWN} as the method niso"):
        niso.load("torus")

    def wider(self, networks):
        model = Isometry.build(self, networks)
        model.more = torch.nn.Linear(2, 2)
        return model

    monkeypatch.setattr(Mine, "build", wider)
    with pytest.raises(CheckpointError, match=f"settings that describe it or {MINE}.* were changed"):
        niso.load(saved)


def test_what_must_be_registered_is_named_where_settings_cannot_be_read(tmp_path):
    """A name that is unknown here is refused by the settings themselves; other errors stay."""
    facts = {FACT: {"spectrum": {"smooth": "mine.Smooth"}, "method": {"niso": "mine.Other"}}}
    message = "run was trained with mine.Smooth as the spectrum smooth, which is unknown here: register mine.Smooth"
    with pytest.raises(InputError, match=message), naming_unknown(tmp_path / "run", facts):
        raise InputError("spectrum must be table")
    for others in ({}, {FACT: {"method": {"niso": "mine.Other"}}}, {FACT: 3}, None, {FACT: {"spectrum": 3}}):
        with pytest.raises(InputError, match=r"^spectrum must be table$"), naming_unknown(tmp_path / "run", others):
            raise InputError("spectrum must be table")

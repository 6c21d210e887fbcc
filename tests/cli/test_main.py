"""The `niso` command, called in this process. Processes of its own, killed or several, are in test_processes.py."""

import pytest
import torch

from niso.experiments import EXPERIMENTS
from niso.training.run import Run

TORUS = ("run", "torus")


# --- help


@pytest.mark.parametrize(
    "words", [("--help",), ("-h",), ("help",), ("run", "--help"), ("resume", "-h"), ("report", "--help")]
)
def test_help(niso, words):
    status, out, err = niso(*words)
    assert (status, err) == (0, "")
    assert all(word in out for word in ("run", "resume", "evaluate", "report", *EXPERIMENTS))


def test_a_bare_call_is_a_wrong_call(niso):
    status, out, err = niso()
    assert (status, out) == (2, "") and "usage: niso" in err


def test_version(niso):
    assert niso("--version").out.startswith("niso 0.")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_help_of_an_experiment_shows_its_settings(niso, experiment):
    status, out, _ = niso("run", experiment, "--help")
    assert status == 0
    for flag in (
        "--preset",
        "--method",
        "--seed",
        "--data-dir",
        "--out",
        "--config",
        "--steps",
        "--learning-rate",
        "--devices",
    ):
        assert flag in out
    assert f"usage: niso run {experiment}" in out


def test_help_shows_the_values_of_the_preset(niso):
    out = " ".join(niso(*TORUS, "--preset", "released", "--help").out.replace("│", " ").split())
    assert "(default: released)" in out and "(default: 1000000)" in out


# --- wrong calls


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ruin"], "unknown command 'ruin'; did you mean run?"),
        (["run"], "needs an experiment; choose from torus"),
        (["run", "tor"], "unknown experiment 'tor'; did you mean torus?"),
        (["resume"], "takes one run folder, got 0 arguments"),
        (["evaluate", "a", "b"], "takes one run folder, got 2 arguments"),
        (["resume", "--forec"], "unknown option '--forec'"),
        (["report"], "needs one or more run folders"),
        (["report", "--out"], "--out needs a"),
        ([*TORUS, "--step", "3"], "unknown option '--step'; did you mean --steps?"),
        ([*TORUS, "--qqqq"], "unknown option '--qqqq'; `niso run torus --help` lists all"),
        ([*TORUS, "more"], "unexpected argument 'more'"),
        ([*TORUS, "--preset", "quik"], "unknown preset 'quik'; did you mean quick?"),
        ([*TORUS, "--preset=quik"], "unknown preset 'quik'; did you mean quick?"),
        ([*TORUS, "--preset"], "--preset needs a value"),
        ([*TORUS, "--method", "niiso"], "unknown value 'niiso'; did you mean niso?"),
        ([*TORUS, "--eigenvalues", "srted"], "--eigenvalues: unknown value 'srted'; did you mean sorted?"),
        ([*TORUS, "--steps"], "--steps"),
        ([*TORUS, "--steps", "-3"], "steps must be positive, got -3"),
        ([*TORUS, "--steps", "0"], "steps must be positive"),
        ([*TORUS, "--steps", "many"], "--steps: 'many' is not a whole number"),
        ([*TORUS, "--steps", "1.5"], "--steps: '1.5' is not a whole number"),
        ([*TORUS, "--learning-rate", "big"], "--learning-rate: 'big' is not a number"),
        ([*TORUS, "--learning-rate", "nan"], "learning_rate must be positive"),
        ([*TORUS, "--weight-decay", "-1"], "weight_decay must not be negative"),
        ([*TORUS, "--seed", "-1"], "seed must not be negative"),
        ([*TORUS, "--seeds", "0"], "--seeds must be at least 1, got 0"),
        ([*TORUS, "--seeds", "two"], "--seeds: 'two' is not a whole number"),
        ([*TORUS, "--seeds", "2", "--devices", "2"], "train each run in one process: leave --devices"),
        ([*TORUS, "--parallel", "2", "--devices", "2"], "--parallel trains each run in one process: leave --devices"),
        ([*TORUS, "--parallel", "0"], "--parallel must be at least 1, got 0"),
        (["resume", "run", "--parallel", "0"], "--parallel must be a whole number, at least 1, got 0"),
        (["resume", "run", "--parallel", "two"], "--parallel must be a whole number, at least 1, got two"),
        (["resume", "run", "--parallel"], "--parallel needs a value"),
        ([*TORUS, "--method", "niso", "--methods", "niso"], "--method and --methods exclude each other"),
        ([*TORUS, "--methods", "niiso"], "unknown value 'niiso'; did you mean niso?"),
        ([*TORUS, "--methods", "niso", "niso"], "--methods names a method twice: niso niso"),
        ([*TORUS, "--methods", "--seeds", "2"], "--methods needs one or more of niso"),
        ([*TORUS, "--devices", "0"], "devices must be positive"),
        ([*TORUS, "--size", "0"], "size must be positive"),
        ([*TORUS, "--size", "4", "--rank", "17"], "rank 17 must lie between 1 and the number of points, 16"),
        ([*TORUS, "--config", "nowhere.yaml"], "cannot read configuration nowhere.yaml"),
    ],
)
def test_wrong_calls(refused, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refused(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b", "must hold a mapping of settings, not list"),
        ("a: [", "not valid YAML"),
        (b"\xff\xfe\x00\x81", "not valid YAML"),
        ("confg: {}", "unknown setting 'confg'; did you mean config?"),
        ("config: {sise: 3}", "unknown setting 'sise'; did you mean size?"),
        ("config: {training: {step: 3}}", "unknown setting 'step'; did you mean steps?"),
        ("hardware: {device: 2}", "unknown setting 'device'; did you mean devices?"),
        ("config: 3", "config must be a mapping"),
        ("config: {training: 3}", "training"),
        ("config: {size: abc}", "size: Input should be a valid integer"),
        ("config: {rank: 99}", "rank 99 must lie between 1 and the number of points, 64"),
        ("config: {1: 2}", "Keys should be strings"),
        ("preset: quik", "unknown preset 'quik'; did you mean quick?"),
        ("preset: [1]", "unknown preset"),
        ("method: niiso", "unknown method 'niiso'; did you mean niso?"),
        ("seed: abc", "seed: Input should be a valid integer"),
        ("seed: -4", "seed must not be negative"),
        ("data_dir: 5", "data_dir"),
        ("experiment: sphere", "is a configuration of 'sphere', not of 'torus'"),
        ("null: 2", "unknown setting None"),
    ],
)
def test_wrong_configuration_files(refused, text, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused(*TORUS, "--config", path)
    assert said in line
    assert list(tmp_path.iterdir()) == [path]


def test_flags_override_the_file_and_the_file_the_preset(niso, small, tmp_path):
    path, out = tmp_path / "c.yaml", tmp_path / "run"
    path.write_text(
        "preset: paper\nseed: 7\nhardware:\n"
        "config:\n  multiplicity: 0.25\n  images: 9\n  training: {weight_decay: 0.5}\n"
    )
    assert niso(*TORUS, "--config", path, *small, "--out", out).status == 0
    settings = Run(out).settings
    assert (settings["preset"], settings["seed"], settings["hardware"]["devices"]) == ("paper", 7, 1)
    assert settings["config"]["multiplicity"] == 0.25  # the file's
    assert settings["config"]["images"] == 3  # the flag's
    assert settings["config"]["training"]["weight_decay"] == 0.5 and settings["config"]["training"]["steps"] == 3


def test_a_run_can_be_repeated_from_its_configuration(niso, finished, tmp_path, weights):
    again = tmp_path / "again"
    assert niso(*TORUS, "--config", finished / "config.yaml", "--out", again).status == 0
    assert Run(again).settings == Run(finished).settings
    first, second = weights(finished), weights(again)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_default_folder_names_the_run(niso, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert niso(*TORUS, *small, "--seed", "4").status == 0
    assert (tmp_path / "runs" / "torus-quick-niso-seed4" / "metrics.json").is_file()

import json
import math
from dataclasses import FrozenInstanceError, asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from niso.config import Hardware, Optimisation, parse, read_yaml, to_yaml
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.settings import Settings, without_places
from niso.methods.config import FieldConfig
from niso.networks import ConvConfig

SOURCE = Path("some.yaml")
PRESETS = [(name, preset) for name in EXPERIMENTS for preset in EXPERIMENTS.find(name).presets]


def round_trip(settings: Settings) -> Settings:
    return Settings.load(yaml.safe_load(to_yaml(settings.dump())), SOURCE)


@pytest.mark.parametrize(("experiment", "preset"), PRESETS)
def test_every_preset_survives_yaml(experiment, preset):
    """With what methods have in its place."""
    kind, seen = EXPERIMENTS.find(experiment), list[object]()
    for method in kind.methods():
        config = kind.settings_of(preset, method)
        if config not in seen:
            seen.append(config)
            settings = Settings(experiment, preset, config, method, seed=3, data_dir=Path("/some/ü"))
            assert round_trip(settings) == settings


def test_unknown_settings_are_refused():
    values = Settings("homnist", "quick", EXPERIMENTS.find("homnist").presets["quick"]).dump()
    values["config"] |= {"formr": 3}
    with pytest.raises(InputError, match="unknown setting 'formr'"):
        Settings.load(values, SOURCE)


floats = st.floats(0, 1e6, allow_subnormal=True)


@given(
    st.integers(1, 10**7), st.integers(1, 10**4), floats.filter(bool), floats, st.integers(0, 10**6), floats,
    st.none() | st.integers(1, 10**7), st.integers(0, 2**63), st.booleans(),
)  # fmt: skip
def test_any_values_survive_yaml(steps, batch, rate, final, warmup, decay, cosine, seed, special):
    training = Optimisation(steps, batch, rate, final, warmup, cosine, decay)
    config = replace(EXPERIMENTS.find("torus").presets["quick"], training=training, special=special)
    settings = Settings("torus", "quick", config, seed=seed)
    assert round_trip(settings) == settings


def test_relative_paths_are_stored_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = replace(EXPERIMENTS.find("pose").presets["quick"], split_file=Path("split.json"))
    stored = Settings("pose", "quick", config, data_dir=Path("here")).dump()
    assert stored["data_dir"] == str(tmp_path / "here") and stored["config"]["split_file"] == str(
        tmp_path / "split.json"
    )
    kept = json.loads(json.dumps(without_places(stored)))  # all plain
    assert kept["data_dir"] == "here" and kept["config"]["split_file"] == "split.json"


def test_configurations_are_frozen():
    with pytest.raises(FrozenInstanceError):
        Optimisation().steps = 3


def test_rate_by_hand():
    schedule = Optimisation(steps=12, learning_rate=1.0, final_learning_rate=0.2, warmup_steps=2)
    expected = [0.5, 1.0] + [0.2 + 0.8 * (1 + math.cos(math.pi * i / 10)) / 2 for i in range(10)]
    assert [schedule.rate_at(step) for step in range(12)] == pytest.approx(expected)
    assert schedule.rate_at(7) == pytest.approx(0.6)  # half-way down the cosine


def test_cosine_may_end_elsewhere():
    early = Optimisation(steps=10, learning_rate=1.0, final_learning_rate=0.1, warmup_steps=0, cosine_steps=5)
    assert [early.rate_at(step) for step in (5, 9)] == pytest.approx([0.1, 0.1])
    late = replace(early, cosine_steps=20)
    assert late.rate_at(10) == pytest.approx(0.55)


def test_warm_up_is_at_most_half():
    short = Optimisation(steps=4, learning_rate=1.0, final_learning_rate=0.0, warmup_steps=2_000)
    assert [short.rate_at(step) for step in range(4)] == pytest.approx([0.5, 1.0, 1.0, 0.5])
    assert Optimisation(steps=1, learning_rate=1.0).rate_at(0) == 1.0


@given(st.integers(1, 500), st.integers(0, 500), st.integers(0, 1_000))
def test_rate_stays_between_its_ends(steps, warmup, step):
    schedule = Optimisation(steps=steps, learning_rate=1.0, final_learning_rate=0.1, warmup_steps=warmup)
    assert 0 < schedule.rate_at(step) <= 1 + 1e-12


@pytest.mark.parametrize(
    "values",
    [
        {"steps": 0}, {"steps": -1}, {"batch_size": 0}, {"learning_rate": 0.0}, {"learning_rate": math.nan},
        {"final_learning_rate": -1.0}, {"warmup_steps": -1}, {"weight_decay": -0.1}, {"weight_decay": math.nan},
        {"cosine_steps": 0}, {"cosine_steps": -5}, {"eigenfunction_beta2": 1.0}, {"eigenfunction_beta2": 1.5},
    ],
)  # fmt: skip
def test_optimisation_refuses(values):
    with pytest.raises(ValueError, match=f"{next(iter(values))} must"):
        Optimisation(**values)


@pytest.mark.parametrize(
    "values", [{"devices": 0}, {"nodes": 0}, {"threads": -1}, {"threads": 30_000}, {"checkpoint_seconds": -1.0}]
)
def test_hardware_refuses(values):
    with pytest.raises(ValueError, match=f"{next(iter(values))} must"):
        Hardware(**values)


@pytest.mark.parametrize(("given", "taken"), [("gpu", "auto"), ("auto", "auto"), ("cpu", "cpu")])
def test_hardware_of_one_process_perhaps_without_the_gpu(given, taken):
    several = Hardware(accelerator=given, devices=4, nodes=2, precision="bf16-mixed")
    assert several.alone() == Hardware(accelerator=taken, precision="bf16-mixed")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"step": 3}, ["some.yaml", "'step'", "did you mean steps?"]),
        ({"steps": "many"}, ["some.yaml", "steps", "integer"]),
        ({"steps": 1.5}, ["steps", "integer"]),
        ({"steps": -3}, ["steps must be positive", "-3"]),
        ({"steps": None}, ["steps"]),
        ([1], ["some.yaml"]),
        ("text", ["some.yaml"]),
        ({1: 2}, ["some.yaml"]),
    ],
)
def test_parse_says_what_is_wrong_in_one_line(values, words):
    with pytest.raises(InputError) as error:
        parse(Optimisation, values, SOURCE)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value)


def test_parse_names_nested_settings():
    kind = EXPERIMENTS.find("torus")
    values = asdict(kind.presets["quick"])
    with pytest.raises(InputError, match="did you mean learning_rate"):
        parse(kind.config_class, values | {"training": {"learning_rat": 1}}, SOURCE)
    with pytest.raises(InputError, match=r"training\.steps"):
        parse(kind.config_class, values | {"training": {"steps": "x"}}, SOURCE)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"- a\n- b\n", "mapping.*list"),
        (b"", "mapping"),
        (b"just text", "mapping.*str"),
        (b"\xff\xfe\x00\x81", "not valid YAML"),
        (b"a: [", "not valid YAML"),
        (b"a: !!python/object/apply:os.system [ls]", "not valid YAML"),
        pytest.param(b"[" * 5_000, "not valid YAML", id="5000 brackets"),
        pytest.param(b"a: " + b"[" * 5_000 + b"]" * 5_000, "not valid YAML", id="5000 brackets closed"),
        pytest.param(b"- " * 5_000, "not valid YAML", id="5000 dashes"),
    ],
)
def test_damaged_files(tmp_path, content, words):
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as error:
        read_yaml(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="directory"):
        read_yaml(tmp_path)


@pytest.mark.parametrize(
    "config, values",
    [
        (Optimisation, {"steps": 10.0}),
        (Optimisation, {"batch_size": "16"}),
        (Optimisation, {"warmup_steps": True}),
        (Optimisation, {"cosine_steps": 2.5}),
        (ConvConfig, {"latent_channels": 2.5}),
        (FieldConfig, {"width": 128.0}),
    ],
)
def test_what_counts_is_a_whole_number(config, values):
    (name,) = values
    with pytest.raises(TypeError, match=f"{name} must be a whole number, not|parameter {name}"):
        config(**values)


@given(st.floats(1e-7, 1.0), st.floats(0, 1.0))
def test_a_rate_never_rises_after_the_warm_up(peak, final):
    schedule = Optimisation(steps=20, warmup_steps=3, learning_rate=peak, final_learning_rate=final)
    rates = [schedule.rate_at(step) for step in range(3, 21)]
    assert all(later <= earlier for earlier, later in pairwise([peak, *rates]))
    assert rates[-1] == pytest.approx(min(final, peak))


def test_there_is_no_step_before_the_first():
    with pytest.raises(ValueError, match="steps are counted from 0, got -1"):
        Optimisation().rate_at(-1)

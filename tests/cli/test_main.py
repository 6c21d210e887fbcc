"""The `niso` command, called in this process. Processes of its own, killed or several, are in test_processes.py."""

import errno
import subprocess
import sys
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal
from unittest.mock import Mock

import pytest
import torch
import tyro

from niso.cli.main import COMMANDS, main
from niso.cli.parsing import _flags, parse
from niso.cli.run import make_options, parse_run
from niso.config import SPECTRAL
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.training.run import Run

TORUS = ("run", "torus")
PRESETS = EXPERIMENTS.find("torus").presets


# --- help


@pytest.mark.parametrize("words", ["--help", "-h", "help"])
def test_help(niso, words):
    status, out, err = niso(words)
    assert (status, err) == (0, "")
    assert all(f"\n  {command} " in out for command in COMMANDS) and all(name in out for name in EXPERIMENTS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_own_help(niso, command):
    status, out, err = niso(*command.split(), "--help")
    assert (status, err) == (0, "") and out.startswith(f"usage: niso {command} ")
    assert all(word in out for word in COMMANDS[command][0].split()) and "(default: )" not in out
    assert niso("help", *command.split()).out == out


@pytest.mark.parametrize("group", ["data", "data prepare"])
def test_help_of_a_group_lists_its_commands(niso, group):
    status, out, err = niso(*group.split(), "--help")
    assert (status, err) == (0, "") and out.startswith(f"usage: niso {group} COMMAND")
    assert "data" in out.splitlines()[2] and "train" not in out.splitlines()[2], "what the group is for"
    assert all((f"\n  {command} " in out) == command.startswith(group) for command in COMMANDS)


def test_what_a_terminal_cannot_show_is_written_as_an_escape(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    shown = subprocess.run([sys.executable, "-m", "niso", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0 and "usage: niso COMMAND \\u2026" in shown.stdout and not shown.stderr


def test_the_module_itself_is_the_command():
    shown = subprocess.run([sys.executable, "-m", "niso.cli.main", "nonsense"], capture_output=True, text=True)
    assert shown.returncode == 2 and "unknown command 'nonsense'" in shown.stderr


def test_help_of_all_commands_needs_no_torch():
    program = (
        "import sys\nfrom niso.cli.main import main\n"
        "for words in (['--help'], ['data', '--help'], ['--version']):\n"
        "    try: main(words)\n    except SystemExit: pass\n"
        "print(*sorted(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {"torch", "scipy", "igl", "numpy", "tyro", "pydantic"}.isdisjoint(printed.split())


def test_a_bare_call_is_a_wrong_call(niso):
    status, out, err = niso()
    assert (status, out) == (2, "") and "usage: niso" in err


def test_warnings_are_one_line_and_what_asks_for_rounded_products_is_none(niso, monkeypatch):
    def warn(arguments):
        for message in ("TensorFloat32 tensor cores available but not enabled.", "two\nlines"):
            warnings.warn(message, stacklevel=1)
        with warnings.catch_warnings():  # after which `warnings` itself says all again
            warnings.warn("two\nlines", stacklevel=1)
        return 0

    monkeypatch.setattr("niso.cli.main._dispatch", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert niso("list").err == "niso: warning: two lines\n"


def test_version(niso):
    assert niso("--version").out.startswith("niso 0.")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_short_help_of_an_experiment_says_what_it_is_in_whole_sentences(niso, experiment):
    _, about, *_ = niso("run", experiment, "--help").out.split("\n\n")
    assert " ".join(about.split()) in EXPERIMENTS.find(experiment).summary
    assert about.endswith(".") and len(about.splitlines()) <= 4


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_long_help_of_an_experiment_says_what_its_presets_and_methods_are(niso, experiment):
    kind, out = EXPERIMENTS.find(experiment), niso("run", experiment, "--help-all").out
    words = " ".join(out.partition("╭")[0].split())
    for entry, text in [*kind.preset_notes.items(), *((method, kind.about(method)) for method in kind.methods())]:
        assert len(text) > 10 and f" {entry} {text} " in f"{words} "


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_help_of_an_experiment_shows_its_settings(niso, experiment):
    status, out, _ = niso("run", experiment, "--help-all")
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


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_short_help_of_an_experiment(niso, experiment):
    """A screen: what it is, two examples that can be called, presets with what they cost, what people change."""
    status, out, _ = niso("run", experiment, "--preset", next(reversed(EXPERIMENTS.find(experiment).presets)), "--help")
    kind, lines = EXPERIMENTS.find(experiment), out.splitlines()
    assert status == 0 and len(lines) <= 40 and max(map(len, lines)) <= 110
    assert all(kind.preset_notes.get(preset) for preset in kind.presets), "a line about each preset"
    assert len(kind.examples) == 2 and all(call.startswith(f"niso run {experiment}") for call in kind.examples)
    flags = dict(_flags(make_options(kind)))
    assert {f"--{flag}" for flag in kind.main_settings} <= set(flags)
    assert "data-dir" in kind.main_settings or "comes with the libraries" not in out, "its own data"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_fits_a_screen(niso, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out = niso(*command.split(), "--help").out
    assert len(out.splitlines()) <= 40 and out.count("niso ") >= 3, "with two examples"


def test_help_all_shows_the_values_of_the_preset(niso):
    out = " ".join(niso(*TORUS, "--preset", "released", "--help-all").out.replace("│", " ").split())
    assert "(default: released)" in out and "(default: 1000000)" in out


# --- wrong calls


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ruin"], "unknown command 'ruin'; did you mean run?"),
        (["--versoin"], "unknown command '--versoin'; did you mean --version?"),
        (["run"], "needs an experiment; choose from torus"),
        (["run", "tor"], "unknown experiment 'tor'; did you mean torus?"),
        (["resume"], "`niso resume` needs RUN; see `niso resume --help`"),
        (["evaluate", "a", "b"], "unexpected argument 'b'"),
        (["resume", "--xyzzyx"], "unknown option '--xyzzyx'; `niso resume --help` lists all"),
        (["resume", "a", "--paralel", "2"], "unknown option '--paralel'; did you mean --parallel?"),
        (["run", "homnist", "--stem-channels", "9"], "'--stem-channels'; did you mean --conv.stem-channels?"),
        (["run", "torus", "--training.steps", "9"], "unknown option '--training.steps'; did you mean --steps?"),
        (["run", "torus", "--training.stepz", "9"], "unknown option '--training.stepz'; did you mean --steps?"),
        (["resume", "-x"], "unknown option '-x'; `niso resume --help` lists all"),
        (["record", "a", "--too=b"], "unknown option '--too'; did you mean --to?"),
        (["--qqqq"], "unknown command '--qqqq'; choose from run, resume"),
        (["run", "pairs", "--data", ""], "niso run pairs --data '' has an empty argument: give a value"),
        (["run", "pairs", "--data="], "niso run pairs --data= has an empty argument: give a value"),
        (["data"], "`niso data` needs a command; choose from shapes, prepare"),
        (["report"], "name one or more run folders"),
        (["report", "--out"], "--out needs a"),
        ([*TORUS, "--step", "3"], "unknown option '--step'; did you mean --steps?"),
        ([*TORUS, "--no-compil"], "unknown option '--no-compil'; did you mean --no-compile?"),
        ([*TORUS, "--rank", "ten"], "--rank must be a whole number or None"),
        ([*TORUS, "--qqqq"], "unknown option '--qqqq'; `niso run torus --help` lists all"),
        ([*TORUS, "more"], "unexpected argument 'more'"),
        ([*TORUS, "--preset", "quik"], "unknown preset 'quik'; did you mean quick?"),
        ([*TORUS, "--preset=quik"], "unknown preset 'quik'; did you mean quick?"),
        ([*TORUS, "--preset"], "--preset needs a value"),
        ([*TORUS, "--steps", "3", "--preset"], "--preset needs a value"),
        ([*TORUS, "--method", "niiso"], "unknown method 'niiso'; did you mean niso?"),
        ([*TORUS, "--eigenvalues", "srted"], "--eigenvalues: unknown value 'srted'; did you mean sorted?"),
        ([*TORUS, "--steps"], "--steps"),
        ([*TORUS, "--steps", "-3"], "steps must be positive, got -3"),
        ([*TORUS, "--steps", "0"], "steps must be positive"),
        ("run homnist --steps 2 --head.steps 0".split(), "niso: head.steps must be positive, got 0"),
        ("run homnist --steps=0 --head.steps 2".split(), "niso: steps must be positive, got 0"),
        ("run homnist --learning-rate 1 --head.learning-rate=0".split(), "niso: head.learning_rate must be positive"),
        ([*TORUS, "--steps", "many"], "--steps must be a whole number"),
        ([*TORUS, "--steps", "1.5"], "--steps must be a whole number"),
        ([*TORUS, "--learning-rate", "big"], "--learning-rate must be a number"),
        ([*TORUS, "--learning-rate", "nan"], "learning_rate must be positive"),
        ([*TORUS, "--weight-decay", "-1"], "weight_decay must not be negative"),
        ([*TORUS, "--seed", "-1"], "seed must not be negative"),
        ([*TORUS, "--seeds", "0"], "seeds must be positive, got 0"),
        ([*TORUS, "--seeds", "two"], "--seeds must be a whole number"),
        ([*TORUS, "--seeds", "2", "--devices", "2"], "train each run in one process: leave --devices"),
        ([*TORUS, "--parallel", "2", "--devices", "2"], "--parallel trains each run in one process: leave --devices"),
        ([*TORUS, "--parallel", "0"], "parallel must be positive, got 0"),
        (["resume", "run", "--parallel", "0"], "parallel must be positive, got 0"),
        (["resume", "run", "--parallel", "two"], "--parallel must be a whole number"),
        (["resume", "run", "--parallel"], "--parallel needs a value"),
        ([*TORUS, "--method", "niso", "--methods", "niso"], "--method and --methods exclude each other"),
        ([*TORUS, "--methods", "niiso"], "unknown method 'niiso'; did you mean niso?"),
        ([*TORUS, "--methods", "niso", "niso"], "--methods names a method twice: niso niso"),
        ([*TORUS, "--methods", "--seeds", "2"], "--methods needs one or more of niso"),
        ([*TORUS, "--devices", "0"], "devices must be positive"),
        ([*TORUS, "--size", "0"], "size must be positive"),
        ([*TORUS, "--size", "4", "--rank", "17"], "rank 17 must lie between 1 and the number of functions, 16"),
        ([*TORUS, "--config", "nowhere.yaml"], "cannot read configuration nowhere.yaml"),
    ],
)
def test_wrong_calls(refused, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*words)
    assert list(tmp_path.iterdir()) == []


UNREAD = {
    "homnist --data-dir DOES-NOT-EXIST": "--data-dir has no effect, add --digits mnist to read it, or leave it out",
    "homnist --methods all --data-dir X": "--data-dir has no effect",
    "homnist --confidence given": "without --occlusion nothing is covered, and all points are seen",
    "homnist --occlusion 0 --completion.steps 3": "without --occlusion nothing is covered",
    "pose --confidence given": "without --occlusion nothing is covered, and all points are seen",
    "homnist --nft-maps 3": "the method niso-group does not read it; nft and nft-triplet do",
    "homnist --no-complete": "--no-complete has no effect, leave it out: the method niso-group does not read it",
    "homnist --method niso-triplet --equivariance 0.3": "--relative-equivariance, here 0.03, replaces it",
    "homnist --vit.patch 4": "--architecture is conv, not vit",
    "homnist --conv.image-size 8 8": "the digits have a size of their own",
    "homnist --head.eigenvalue-learning-rate 1": "the head is trained on frozen networks",
    "homnist --method autoencoder --rank 3": "the method autoencoder does not read it",
    "homnist --vector-neurons.leak 0.1": "--vector-neurons.variant released has none",
    "homnist --method niso --group 2": "niso-group and niso-group-vicreg do",
    "shapes --data-dir X --preparation.height 8": "the shapes of --data-dir are prepared already",
    "shapes --data-dir X --vertices 300": "the shapes of --data-dir are prepared already",
    "shapes --head.eigenvalues-frozen 0.5": "eigenvalues are not trained on with the head",
    "shapes --method nft --nft-epochs 0 --nft-maps 3": "--nft-epochs 0 leaves the block diagonalisation out",
    "pose --equivariance 0.2": "--relative-equivariance, here 0.03, replaces it",
    "pose --quality 0.3": "it is for CO3Dv2, which is not given by --data-dir",
    "pose --data-dir X --split-file Y --held-out 0.3": "--split-file replaces it",
    "pose --data-dir X --clips 3": "--clips has no effect, add --rendered to mix them, or leave it out",
    "pose --method vit --steps 30": "the method vit does not read it",
    "pose --method dinov2 --transformer.encoder-blocks 2": "the method dinov2 does not read it; vit does",
    "pose --dinov2 X": "the method niso does not read it; dinov2 does",
    "torus --field.width 8": "--spectrum is table",
    "torus --whitened": "--equivariance is 0",
    "pairs --skip 3": "it is not for a folder of pictures, with --transform",
    "pairs --kind images": "it is not for a folder of pictures",
    "pairs --encoder a:A --decoder a:B --latent-channels 3": "the networks are your own",
    "pairs --architecture identity --latent-channels 3": "--architecture identity has the channels",
    "homnist --spectrum field --field.features coordinates --field.scale 2": "--field.features are coordinates",
    "homnist --spectrum field --field.features periodic --field.scale 2": "--field.features are periodic",
    "torus --preset field --field.layers 0 --field.width 9": "--field.layers is 0",
    "homnist --multiplicity 0 --multiplicity-decay 0.5": "--multiplicity is 0",
    "homnist --spectral-head.layers 2": "--classifier is vector-neurons",
    "homnist --method nft --classifier spectral": "spectral is for maps that commute with an operator",
    "descriptors --evaluation-pairs 5": "every held-out surface makes one pair",
    "descriptors --spectral-dropout 0.5": "no coefficients are dropped here",
    "descriptors --whitened": "all eigenfunctions count by their coefficients here",
    "descriptors --data-dir X --surfaces tori": "--data-dir replaces the surfaces that niso makes",
    "descriptors --data-dir X --vertices 300": "--data-dir replaces the surfaces that niso makes",
    "torus --parallel 2": "there is one run; --seeds and --methods make several",
}


@pytest.mark.parametrize("call", UNREAD)
def test_an_option_that_would_change_nothing_is_refused(call):
    with pytest.raises(InputError) as error:
        parse_run(call.split())
    line = str(error.value)
    assert UNREAD[call] in line and "has no effect, " in line and "leave it out: " in line


@pytest.mark.parametrize(
    "call",
    [
        "homnist --digits mnist --data-dir X",
        "homnist --methods niso nft --nft-maps 3",
        "homnist --method niso-triplet --relative-equivariance None --equivariance 0.3",
        "homnist --architecture vit --vit.patch 4",
        "homnist --spectrum field --eigenfunctions rotation --field.scale 2",
        "shapes --head.mass-learning-rate 0.1",
        "pose --data-dir X --rendered 0.5 --clips 3",
        "pose --method dinov2 --dinov2 X --transformer.channels 32",
        "pose --methods niso vit --transformer.channels 32 --conv.blocks 2",
    ],
)
def test_an_option_that_one_of_the_runs_reads_is_taken(call):
    parse_run(call.split())


def test_settings_of_files_and_presets_may_be_for_other_methods(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("data_dir: /nowhere\nconfig: {nft_maps: 3, vit: {patch: 2}, group: 2}\n")
    given = parse_run(["homnist", "--config", str(file)]).settings
    assert given.config.nft_maps == 3 and given.method == parse_run(["homnist"]).settings.method


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_what_is_not_read_are_settings(experiment):
    """A misspelt declaration would refuse nothing."""
    kind = EXPERIMENTS.find(experiment)
    paths = {path for _, path in _flags(kind.config_class)} | {"data_dir"}
    groups = {path[:place] for path in paths for place in range(len(path)) if path[place] == "."}
    for method in kind.methods():
        known = kind.unread(kind.presets["quick"], method, None).keys()
        ignored = {
            "vector_neurons",
            "classifier",
            "classifier_settings",
            "spectral_head",
            "eigenspace_head",
            *(f"head.{name}" for name in SPECTRAL),
        }  # methods do not know what heads there are
        assert known <= paths | groups | ignored


@dataclass(frozen=True)
class Inner:
    size: int = 1
    kind: Literal["cat", "dog"] = "cat"

    def __post_init__(self):
        if self.size < 1:
            raise ValueError("size must be positive")


@dataclass(frozen=True)
class Toy:
    word: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WORD")]
    rate: float | None = None
    inline: Annotated[Inner, tyro.conf.arg(name="")] = field(default_factory=Inner)
    head: Inner = field(default_factory=Inner)


WRONG = {
    "": "`toy` needs WORD; see `toy --help`",
    "a b": "unexpected argument 'b'",
    "a --rat 2": "unknown option '--rat'; did you mean --rate?",
    "a --head.siz 2": "unknown option '--head.siz'; did you mean --head.size?",
    "a --head_rat=1": "unknown option '--head_rat'; did you mean --rate?",
    "--rat 2": "unknown option '--rat'; did you mean --rate?",
    "--rate 2": "`toy` needs WORD",
    "a --rate": "--rate needs a value",
    "a --rate x": "--rate must be a number or None",
    "a --head.kind dig": "--head.kind: unknown value 'dig'; did you mean dog?",
    "a --head.size 0": "head.size must be positive",
    "a --size 2 --head.size 0": "size must be positive",
    "a --size 0": "size must be positive",
}


@pytest.mark.parametrize("call", WRONG)
def test_errors_of_the_parser_are_one_line(call):
    """For every kind of error, so that another version of tyro, whose hook is not public, shows here."""
    with pytest.raises(InputError) as error:
        parse(Toy, "toy", call.split())
    assert str(error.value).startswith(WRONG[call]) and "\n" not in str(error.value)


def test_without_the_hook_a_wrong_call_is_still_refused(monkeypatch, capsys):
    monkeypatch.delattr(tyro, "_errors")
    with pytest.raises(SystemExit) as stop:
        parse(Toy, "toy", ["a", "--rat", "2"])
    assert stop.value.code == 2 and "--rat" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
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
        ("config: {rank: 99}", "rank 99 must lie between 1 and the number of functions, 64"),
        ("config: {1: 2}", "Keys should be strings"),
        ("preset: quik", "unknown preset 'quik'; did you mean quick?"),
        ("preset: [1]", "unknown preset"),
        ("method: niiso", "unknown method 'niiso'; did you mean niso?"),
        ("seed: abc", "seed: Input should be a valid integer"),
        ("seed: -4", "seed must not be negative"),
        ("data_dir: 5", "data_dir"),
        ("experiment: sphere", "is a configuration of 'sphere', not of 'torus'"),
        ("null: 2", "Keys should be strings"),
    ],
)
def test_wrong_configuration_files(refused, text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused(*TORUS, "--config", path)
    assert message in line
    assert list(tmp_path.iterdir()) == [path]


def test_a_method_has_settings_of_its_own_which_files_and_flags_override(tmp_path):
    pairs, nft = parse_run(["homnist", "--preset", "small", "--methods", "niso", "nft"]).several
    assert (pairs.config.rank, pairs.config.conv.latent_channels, pairs.method) == (16, 64, "niso")
    assert (nft.config.rank, nft.config.conv.latent_channels, nft.method) == (32, 32, "nft")
    assert pairs.config == parse_run(["homnist", "--preset", "small", "--method", "niso"]).settings.config
    assert [run.config.rank for run in parse_run(["homnist", "--methods", "niso", "nft", "--rank", "8"]).several] == [
        8,
        8,
    ]
    path = tmp_path / "c.yaml"
    path.write_text("preset: small\nmethod: niso\nconfig: {rank: 12}\n")
    assert parse_run(["homnist", "--config", str(path)]).settings.config == replace(pairs.config, rank=12)
    assert parse_run(["homnist", "--config", str(path), "--method", "nft"]).settings.config.conv.latent_channels == 32
    assert parse_run(["homnist", "--preset", "paper", "--method", "niso"]).settings.config.rank == 32  # as published


def test_flags_override_the_file_and_the_file_the_preset(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "preset: paper\nseed: 7\nhardware:\n"
        "config:\n  multiplicity: 0.25\n  images: 9\n  training: {weight_decay: 0.5}\n"
    )
    settings = parse_run(["torus", "--config", str(path), "--images", "3", "--steps", "5"]).settings
    assert (settings.preset, settings.seed, settings.hardware.devices) == ("paper", 7, 1)
    config = settings.config
    assert config.size == PRESETS["paper"].size  # the preset's
    assert config.multiplicity == 0.25 and config.training.weight_decay == 0.5  # the file's
    assert config.images == 3 and config.training.steps == 5  # the flags'
    assert parse_run(["torus", "--config", str(path), "--preset", "quick", "--seed", "1"]).settings.preset == "quick"


def test_a_run_can_be_repeated_from_its_configuration(niso, finished, tmp_path, weights):
    again = tmp_path / "again"
    assert niso(*TORUS, "--config", finished / "config.yaml", "--out", again).status == 0
    settings = Run(finished).settings
    assert Run(again).settings == {**settings, "hardware": {**settings["hardware"], "speed": "exact"}}  # as was chosen
    first, second = weights(finished), weights(again)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_default_folder_names_the_run():
    assert parse_run(["torus", "--seed", "4"]).out == Path("runs/torus-quick-niso-seed4")
    assert parse_run(["homnist", "--preset", "small", "--methods", "niso", "nft", "--seeds", "3"]).out == Path(
        "runs/homnist-small-niso+nft-seeds0-2"
    )


def test_all_kinds_of_options(tmp_path):
    words = (
        "--preset small --method niso-triplet --seed 2 --seeds 2 --parallel 2 --steps=10 --head.steps 5 "
        "--precision bf16-mixed --compile"
    )
    call = parse_run(["homnist", *words.split(), "--relative_equivariance", "None", "--data-dir", str(tmp_path)])
    config, hardware = call.settings.config, call.settings.hardware
    assert (call.methods, call.settings.method, call.settings.seed, call.parallel) == (
        ("niso-triplet",),
        "niso-triplet",
        2,
        2,
    )
    assert (config.training.steps, config.head.steps, config.relative_equivariance) == (10, 5, None)
    assert (hardware.precision, hardware.compile, call.settings.data_dir) == ("bf16-mixed", True, tmp_path)
    assert parse_run(["homnist", "--no-compile"]).settings.hardware.compile is False


@pytest.mark.parametrize(
    ("flags", "content", "speed"),
    [
        ("", "seed: 1", "auto"),
        ("--precision 32-true", "seed: 1", "exact"),
        ("--no-compile", "seed: 1", "exact"),
        ("--threads 1", "seed: 1", "exact"),
        ("", "hardware: {threads: 2}", "exact"),
        ("", "hardware: {accelerator: cpu}", "auto"),
        ("", "hardware: {precision: 32-true, speed: auto}", "exact"),  # as a run has them that chose
        ("--speed auto", "hardware: {precision: 32-true, speed: auto}", "auto"),
        ("--speed exact", "seed: 1", "exact"),
    ],
)
def test_what_speed_would_choose_turns_it_off_where_it_is_set(tmp_path, flags, content, speed):
    path = tmp_path / "c.yaml"
    path.write_text(content)
    assert parse_run(["torus", "--config", str(path), *flags.split()]).settings.hardware.speed == speed


# --- memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`"),
    ],
    ids=str,
)
def test_memory_that_is_not_there_is_one_line(niso, monkeypatch, error):
    monkeypatch.setattr("niso.cli.main._dispatch", Mock(side_effect=error))
    status, _, err = niso("models")
    assert status == 2 and err.startswith("niso: there is not enough memory") and err.count("\n") == 1


def test_a_reader_that_has_gone_ends_it_in_silence(monkeypatch, capfd):
    monkeypatch.setattr("niso.cli.main._dispatch", Mock(side_effect=BrokenPipeError()))
    monkeypatch.setattr("niso.cli.main.os.dup2", replaced := Mock())
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 141 and replaced.called
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("words", ["features ~/run x.npy", "features run x.npy --out=~/f.npz", "report ~"])
def test_the_users_folder_is_found_where_the_shell_has_left_it(monkeypatch, words, tmp_path, niso):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    called = Mock(return_value=Mock(return_value=0))
    monkeypatch.setattr("niso.cli.parsing.parse_command", called)
    assert niso(*words.split()).status == 0
    (_, _, given), _ = called.call_args
    assert given == words.replace("~", str(tmp_path / "home")).split()[1:]


def test_help_in_a_narrow_terminal_comes_to_an_end(niso, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    assert "niso features" in niso("features", "--help-all").out


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), OSError("not of the file system"), ConnectionResetError(errno.ECONNRESET, "x")]
)
def test_other_faults_are_raised(monkeypatch, error):
    monkeypatch.setattr("niso.cli.main._dispatch", Mock(side_effect=error))
    with pytest.raises(type(error)) as raised:
        main([])
    assert raised.value is error

"""The README's code and that of the guides runs: Python blocks and `niso …` lines, trainings made short."""

import re
import shlex
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tyro
from PIL import Image

from niso.cli.run import parse_run
from niso.experiments.pairs.presets import PRESETS
from studies import retrieval

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
EXAMPLES = ROOT / "docs" / "examples"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

SHORT_RUN = "--steps 3 --images 3 --pool 50 --evaluation-pairs 2".split()  # added to `niso run`
SHORT_PAIRS = "--steps 3 --evaluation-pairs 2 --rank 4 --latent-channels 4 --head.steps 3".split()
RUN_FOLDER = re.compile(r"^runs/[\w.*-]+/?$")  # a finished short run takes its place, except after --out
ELSEWHERE = set("cd git python python3 source . tensorboard open xdg-open .venv/bin/pytest".split())  # not ours


class Block(NamedTuple):
    line: int
    language: str
    text: str


class Command(NamedTuple):
    line: int
    words: list[str]


def blocks(document: Path = README) -> list[Block]:
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    return [Block(text.count("\n", 0, m.start(2)), m[1], m[2]) for m in FENCE.finditer(text)]


def commands(document: Path = README) -> list[Command]:
    """Every command of every bash block, without prompts, comments, VAR=value and breaks in a line."""
    listed = []
    for block in blocks(document):
        if block.language not in ("bash", "sh", "shell", "console"):
            continue
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            for part in re.split(r"&&|;", line.removeprefix("$ ")):
                words = shlex.split(part, comments=True)
                while words and re.match(r"^[A-Z_]+=", words[0]):
                    words = words[1:]
                if words:
                    listed.append(Command(block.line + 1, words))
    return listed


RUN = (README, *HOW_TO, EXAMPLES / "point-clouds.md")
PYTHON = [
    pytest.param(block, id=f"{document.stem}-line{block.line}")
    for document in RUN
    for block in blocks(document)
    if block.language == "python"
]
COMMANDS = commands()
NISO = [command for command in COMMANDS if command.words[0] == "niso"]
OTHERS = [command for command in COMMANDS if command.words[0] != "niso"]


def without(words: list[str], option: str) -> list[str]:
    """The words less `option VALUE` or `option=VALUE`."""
    if option in words:
        at = words.index(option)
        words = words[:at] + words[at + 2 :]
    return [word for word in words if not word.startswith(f"{option}=")]


def shortened(words: list[str], run: Path, tmp_path: Path) -> list[str]:
    """The words of a command after `niso`, with few steps and folders of the test."""
    if "--help" in words or not words:
        return words
    match words[0]:
        case "run":
            few = [*without(words, "--seeds"), "--seeds", "2"] if "--seeds" in words else words
            short = SHORT_PAIRS if words[1] == "pairs" else SHORT_RUN
            return [*without(few, "--out"), *short, "--out", str(tmp_path / "out")]
        case "resume" | "evaluate" | "report" | "record":
            return [str(run) if RUN_FOLDER.match(word) else word for word in words]
        case _:
            return words


def test_readme_shows_the_library_and_both_commands():
    assert any(block.language == "python" for block in blocks()), (
        "README.md needs a ```python block: the library example"
    )
    shown = [command.words[:2] for command in COMMANDS]
    assert ["make", "demo"] in shown
    assert ["make", "test"] in shown


@pytest.mark.xdist_group("outside")
@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("block", PYTHON)
def test_python_block_runs(block, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    padding = "\n" * block.line  # so that tracebacks show the README's lines
    if "niso.fit(x, tx)  #" in block.text:  # half of its steps, and without the tests' checks of every call
        short = block.text.replace("niso.fit(x, tx)", "niso.fit(x, tx, steps=1_500)")
        printed = request.getfixturevalue("outside")(padding + short)
        assert float(printed.split()[0]) >= 0.95  # it does find what the README says
    else:
        few = replace(PRESETS["quick"], evaluation_pairs=16)  # of `niso.fit`, whose metrics are not looked at here
        monkeypatch.setitem(PRESETS, "quick", few)
        short = block.text.replace("steps=800, warmup_steps=60,", "steps=40, warmup_steps=4,")
        short = short.replace("for step in range(300):", "for step in range(30):")
        short = short.replace("digits = load_digits()", "digits = load_digits(n_class=2)")  # a fifth of them
        short = short.replace('steps=60, head={"steps": 100})', 'steps=6, head={"steps": 10})')
        exec(compile(padding + short, README.name, "exec"), {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.parametrize("command", NISO, ids=lambda command: shlex.join(command.words))
def test_niso_command_runs(command, images, niso, request, tmp_path, monkeypatch):
    needs_run = any(word in command.words for word in ("resume", "evaluate", "report", "record"))
    run = request.getfixturevalue("finished") if needs_run else tmp_path / "run"
    words = shortened(command.words[1:], run, tmp_path)
    if "--data" in words or words[0] == "find":
        random = np.random.default_rng(0)
        np.savez(tmp_path / "pairs.npz", x=random.random((40, 8, 8)), tx=random.random((40, 8, 8)))
        (tmp_path / "pictures").mkdir()
        for number, pixels in enumerate(random.integers(256, size=(15, 32, 32, 3), dtype=np.uint8)):
            Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
        shutil.copytree(tmp_path / "pictures", tmp_path / "warped")
    elif words[:1] == ["run"] and "--help" not in words:  # the shipped photographs take a second each time
        words += ["--data-dir", str(images)]
    monkeypatch.chdir(tmp_path)
    status, out, err = niso(*words)
    assert status == 0, f"{shlex.join(['niso', *words])}\n{out}\n{err}"


@pytest.mark.parametrize("command", OTHERS, ids=lambda command: shlex.join(command.words))
def test_other_command_names_what_exists(command):
    """Not run: installing and cloning. What they name must exist: a make target, an extra, a script."""
    program, *rest = command.words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in rest if re.fullmatch(r"[\w-]+", word)} <= set(targets)
    elif program == "pip":
        extras = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        asked = [name for group in re.findall(r"\[([\w,-]+)\]", " ".join(rest)) for name in group.split(",")]
        assert set(asked) <= set(extras)
    else:
        assert program in ELSEWHERE, "say in this test what is to be done with this command"
    for word in rest:
        if program in ("python", "python3") and word.endswith(".py"):
            assert (ROOT / word).is_file()


@pytest.mark.parametrize("document", sorted(EXAMPLES.glob("*.md")), ids=lambda path: path.stem)
def test_commands_of_the_examples_are_understood(document, images, tmp_path, monkeypatch):
    """They take minutes, and one needs a download: runs are parsed only; the data that they name is made up."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).random((40, 8, 8))
    np.savez("ecg.npz", x=x)
    np.savez("volumes.npz", x=x[:, None, None])
    np.savez("digits.npz", x=x, tx=x, group=np.arange(40) // 4)
    shutil.copytree(images, tmp_path / "clips" / "0")
    found = commands(document)
    for program, *words in (command.words for command in found):
        if program == "niso":
            assert words[0] == "run"
            parse_run(words[1:])
        else:
            assert [program, *words[:2]] == ["python", "-m", "studies.retrieval"]
            tyro.cli(retrieval.Options, args=words[2:])
    assert any(command.words[0] == "niso" for command in found)


def test_contributing_has_the_layers_of_the_contract():
    """Each row of the table is a layer of pyproject.toml, in the same order, with the same modules."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"\w+", layer) for layer in contracts[0]["layers"]]
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Layers")[1].split("## ")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[2]) for line in table.splitlines() if line.startswith("|")]
    assert [sorted(row) for row in rows if row] == [sorted(layer) for layer in layers if layer != ["__main__"]]

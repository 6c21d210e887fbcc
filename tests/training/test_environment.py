"""What a run says of where and by what it was trained."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
import yaml

from niso.data.workers import cores
from niso.training import environment as module
from niso.training.environment import called, command_line, commit, environment, machine


@pytest.fixture
def tree(tmp_path):
    """A source tree with one commit, and a function that calls git there."""
    names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | dict.fromkeys(names, "x@y")

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.strip()

    for name in ("niso/a.py", "benchmarks/b.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    return tmp_path, git


def test_a_commit_says_whether_the_code_was_changed(tree):
    root, git = tree
    head = git("rev-parse", "HEAD")
    assert commit(root=root) == commit("benchmarks", root=root) == head[:12]
    (root / "benchmarks" / "b.py").write_text("2\n")
    assert (commit(root=root), commit("benchmarks", root=root)) == (head[:12], f"{head[:12]}+changes")
    (root / "niso" / "new.py").touch()
    assert commit(root=root) == f"{head[:12]}+changes"


def test_the_commit_is_that_of_niso_whatever_git_works_on(tree, tmp_path_factory, monkeypatch):
    """As in a hook of another repository."""
    root, git = tree
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("other")))
    assert commit(root=root) == git("rev-parse", "HEAD")[:12]


def test_what_is_no_source_tree_has_no_commit(tmp_path, monkeypatch):
    assert commit(root=tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert commit(root=tmp_path) is None  # damaged
    monkeypatch.setenv("PATH", "")  # no git
    assert commit(root=Path(module.__file__).parents[2]) is None


def test_environment_says_what_a_result_is_worth():
    facts = environment(torch.device("cpu"))
    assert {"niso", "commit", "torch", "python", "hardware", "cores", "threads", "started"} <= facts.keys()
    assert facts["torch"] == torch.__version__ and facts["hardware"] and facts["cores"] == cores()
    assert yaml.safe_load(json.dumps(facts)) == facts
    assert machine(torch.device("cpu")).items() <= facts.items()


def test_only_a_command_is_one_to_be_given_again(monkeypatch):
    monkeypatch.setattr("sys.argv", ["study.py", "--rounds", "3"])
    assert command_line() is None
    with called(["run", "torus", "--out", "my runs"]):
        assert command_line() == "niso run torus --out 'my runs'"
    assert command_line() is None

"""Folders that are new or empty, and become whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from niso.errors import InputError
from niso.files.folders import CLUTTER, whole_folder, write_new


@pytest.mark.parametrize("name", sorted(CLUTTER))
def test_files_that_systems_leave_do_not_fill_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    write_new(tmp_path, "config.yaml", "first")
    with pytest.raises(InputError, match="is not an empty folder: choose another --out"):
        write_new(tmp_path, "config.yaml", "second")


def test_a_process_killed_while_it_wrote_the_first_file_left_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.999999999-1.tmp").touch()
    write_new(tmp_path, "config.yaml", "first")
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"\(No space left on device\): free space$"),
        (OSError("the folder went away"), r"\(the folder went away\): try another --out$"),
    ],
)
def test_a_first_file_that_cannot_be_written_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(InputError, match=f"cannot write to {tmp_path} {words}"):
        write_new(tmp_path, "config.yaml", "first")


def test_of_two_that_begin_a_folder_at_once_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(()))  # the folder is still empty when each looks
    write_new(tmp_path, "config.yaml", "first")
    with pytest.raises(InputError, match="another process has just begun to write to"):
        write_new(tmp_path, "config.yaml", "second")
    assert (tmp_path / "config.yaml").read_text() == "first"


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InputError, match="link is a link to a place that does not exist"):
        write_new(tmp_path / "link", "config.yaml", "first")


def test_a_folder_is_there_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "deep/.out.unfinished/out"  # by a process that was killed
    left.mkdir(parents=True)
    (left / "half").touch()
    (tmp_path / "deep/out").mkdir()
    (tmp_path / "deep/out/.DS_Store").touch()
    with whole_folder(tmp_path / "deep/out", "OUT") as folder:
        (folder / "file").touch()
        assert not list((tmp_path / "deep/out").glob("[!.]*"))
        with pytest.raises(InputError, match="another process works on"), whole_folder(tmp_path / "deep/out", "OUT"):
            pass
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    assert [path.name for path in (tmp_path / "deep/out").iterdir()] == ["file"]

    with pytest.raises(OSError), whole_folder(tmp_path / "new/out", "OUT"):
        raise OSError("the disk is full")
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(OSError, match="not empty"), whole_folder(tmp_path / "empty", "OUT"):
        (tmp_path / "empty/meanwhile").touch()
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["meanwhile"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="is the folder that you are in"), whole_folder(Path(), "OUT"):
        pass
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "mount")
    with pytest.raises(InputError, match="is a mount"), whole_folder(tmp_path / "mount", "OUT"):
        pass

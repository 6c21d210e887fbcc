"""Files that are whole or not there (more in test_checkpoint.py)."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from niso.errors import InputError
from niso.files.writing import _machine, refusing, replacing, write_atomically


def test_a_file_is_replaced_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    for content in (b"old", b"new"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        theirs = tmp_path / f".file.{other.pid}-1-{_machine()}.tmp"
        theirs.touch()
        write_atomically(tmp_path / "file", b"ours")
        assert theirs.exists()
        os.utime(theirs, (0, 0))
        write_atomically(tmp_path / "file", b"ours")  # another process has that number by now
        assert not theirs.exists()
        theirs.touch()
        other.communicate(b"\n")
    write_atomically(tmp_path / "file", b"ours")  # that process was killed while it wrote
    assert not theirs.exists()


def test_what_another_thread_is_writing_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as file:
        file.write(b"ours")
        thread = threading.Thread(target=write_atomically, args=(path, b"theirs"))
        thread.start()
        thread.join()
        assert path.read_bytes() == b"theirs"
    assert path.read_bytes() == b"ours"
    left = tmp_path / f".file.{os.getpid()}-1-{_machine()}.tmp"  # by an earlier process of the same number
    left.touch()
    os.utime(left, (0, 0))
    write_atomically(path, b"ours")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_what_another_machine_is_writing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of this one has that number."""
    path, names = tmp_path / "file", list[str]()
    monkeypatch.setattr(platform, "node", lambda: "node-of-a-partition-7.cluster")
    with replacing(path):
        names += [found.name for found in tmp_path.iterdir()]
    theirs = tmp_path / names[0].replace(f".{os.getpid()}-", ".999999999-")
    theirs.touch()
    monkeypatch.setattr(platform, "node", lambda: "node-of-a-partition-8.cluster")
    write_atomically(path, b"ours")
    assert theirs.exists()
    monkeypatch.setattr(platform, "node", lambda: "node-of-a-partition-7.cluster")
    write_atomically(path, b"ours")  # of a process that was killed there
    assert not theirs.exists()
    theirs.touch()
    os.utime(theirs, (0, 0))
    monkeypatch.setattr(platform, "node", lambda: "node-of-a-partition-8.cluster")
    write_atomically(path, b"ours")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_what_was_left_of_a_file_with_brackets_in_its_name_goes(tmp_path: Path) -> None:
    (tmp_path / ".a[1].json.999999999.tmp").touch()
    (tmp_path / ".a1.json.999999999.tmp").touch()  # of another file
    write_atomically(tmp_path / "a[1].json", b"{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a1.json.999999999.tmp", "a[1].json"]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def no_links(*_: object) -> None:
        raise OSError("this file system has no links")

    if not links:
        monkeypatch.setattr("os.link", no_links)
    with replacing(tmp_path / "file", new=True) as file:
        file.write(b"first")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(FileExistsError), replacing(tmp_path / "file", new=True) as file:
        file.write(b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    with pytest.raises(OSError, match=r"File too large: .*file") as refused, replacing(path):
        raise OSError(errno.EFBIG, "File too large")
    assert refused.value.filename == str(path) and not list(tmp_path.iterdir())
    long = tmp_path / ("a" * 256)
    with pytest.raises(OSError) as refused:
        write_atomically(long, b"")
    assert refused.value.filename == str(long)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "other").touch()
    with pytest.raises(OSError, match="File too large"), replacing(path):
        raise OSError(errno.EFBIG, "File too large")
    assert [found.name for found in (tmp_path / "new").iterdir()] == ["other"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "the disk is full"), "(the disk is full): free space, then again"),
        (PermissionError(errno.EACCES, "no"), "(no): permit it, or choose another --out, then again"),
        (OSError("nothing more is known"), "(nothing more is known): try another --out, then again"),
        (OSError(), "(OSError): try another --out, then again"),
    ],
)
def test_what_is_refused_is_said_with_its_reason_and_remedy(error: OSError, words: str) -> None:
    with pytest.raises(InputError) as refused, refusing("write to a", ", then again", choice="--out"):
        raise error
    assert str(refused.value) == f"cannot write to a {words}"


def test_names_may_be_as_long_as_names_of_files_are(tmp_path: Path) -> None:
    path = tmp_path / ("猫" * 83 + ".json")
    write_atomically(path, b"first")
    write_atomically(path, b"second")
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"second"]

"""Files that are whole or not there (more in test_checkpoint.py), and folders for one process at a time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from niso.errors import InputError
from niso.files import (
    CLUTTER,
    PIECE,
    check_place,
    digest,
    digest_of_files,
    files_below,
    locked,
    replacing,
    whole_folder,
    write_atomically,
    write_new,
)


def test_a_file_is_replaced_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    for content in (b"old", b"new"):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        theirs = tmp_path / f".file.{other.pid}.tmp"
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
    left = tmp_path / f".file.{os.getpid()}-1.tmp"  # by an earlier process of the same number
    left.touch()
    os.utime(left, (0, 0))
    write_atomically(path, b"ours")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_what_was_left_of_a_file_with_brackets_in_its_name_goes(tmp_path: Path) -> None:
    (tmp_path / ".a[1].json.999999999.tmp").touch()
    (tmp_path / ".a1.json.999999999.tmp").touch()  # of another file
    write_atomically(tmp_path / "a[1].json", b"{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a1.json.999999999.tmp", "a[1].json"]


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


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def no_links(*_: object) -> None:
        raise OSError("this file system has no links")

    if not links:
        monkeypatch.setattr("os.link", no_links)
    with replacing(tmp_path / "file", new=True) as file:
        file.write(b"first")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    if links:
        with pytest.raises(FileExistsError), replacing(tmp_path / "file", new=True) as file:
            file.write(b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    with pytest.raises(OSError, match=r"File too large: .*file") as refused, replacing(path):
        raise OSError(errno.EFBIG, "File too large")
    assert refused.value.filename == str(path) and not list(tmp_path.iterdir())
    long = tmp_path / ("a" * 250)  # with the ending of the file that is to replace it too long a name
    with pytest.raises(OSError) as refused:
        write_atomically(long, b"")
    assert refused.value.filename == str(long)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "other").touch()
    with pytest.raises(OSError, match="File too large"), replacing(path):
        raise OSError(errno.EFBIG, "File too large")
    assert [found.name for found in (tmp_path / "new").iterdir()] == ["other"]


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


def test_a_locked_folder_is_refused_until_it_is_free(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(InputError, match="another process works on"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_waiting_for_a_locked_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("niso.files.PATIENCE", 0.05)
    order, heard = list[str](), threading.Event()

    def hear(line: str) -> None:
        order.append(line)
        heard.set()

    monkeypatch.setattr("niso.files.say", hear)

    def second() -> None:
        with locked(tmp_path, wait=True):
            order.append("second")

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        assert heard.wait(60)
        order.append("first")
    thread.join()
    waiting = f"waiting for another process that works on {tmp_path}, and locks {tmp_path / '.lock'}"
    assert order == [waiting, "first", "second"]


HOLD = """
import time
from pathlib import Path
from niso.files import locked
with locked(Path({folder!r})):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD.format(folder=str(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "locked\n"
            with pytest.raises(InputError, match="wait for it, or stop it first"), locked(tmp_path):
                pass
        finally:
            process.kill()
    with locked(tmp_path):
        pass


def test_files_below_a_folder_are_found_through_links_each_once(tmp_path: Path) -> None:
    for name in ("top/b.off", "top/.hidden.off", "top/.folder/a.off", "top/a.txt", "elsewhere/C.OFF"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "top" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "top")
    (tmp_path / "top" / "lost.off").symlink_to("nowhere")
    found = files_below(tmp_path / "top", {".off"})
    assert [path.relative_to(tmp_path / "top").as_posix() for path in found] == ["b.off", "linked/C.OFF", "lost.off"]


def test_a_folder_that_cannot_be_read_is_no_empty_one(tmp_path: Path, deny: Callable[[Path], None]) -> None:
    for name in ("cat/1.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    deny(tmp_path / "dog")
    with pytest.raises(PermissionError, match="dog"):
        files_below(tmp_path, {".png"})
    assert files_below(tmp_path / "cat", {".png"}) == [tmp_path / "cat/1.png"]
    assert files_below(tmp_path / "nowhere", {".png"}) == []


def test_a_digest_tells_where_parts_end() -> None:
    assert digest(b"ab", b"c") == digest(b"ab", b"c") != digest(b"a", b"bc")


def test_a_word_for_files_changes_with_what_they_hold(tmp_path: Path) -> None:
    files = [tmp_path / "small", tmp_path / "large"]
    files[0].write_bytes(b"abc")
    files[1].write_bytes(bytes(5 * PIECE))
    word = digest_of_files(files, tmp_path)
    assert len(word) == 32 and word == digest_of_files(files)
    for file, place in [(files[0], 1), *((files[1], place) for place in (0, 5 * PIECE // 2, 5 * PIECE - 1))]:
        kept = file.read_bytes()
        file.write_bytes(kept[:place] + b"x" + kept[place + 1 :])
        changed = digest_of_files(files)
        assert changed != word and changed[:16] == word[:16]  # which is of names and sizes
        file.write_bytes(kept)
    assert digest_of_files(files) == word
    files[0].write_bytes(b"abcd")
    assert digest_of_files(files)[:16] != word[:16]
    assert digest_of_files(files[:1])[16:] != digest_of_files([files[0].rename(tmp_path / "other")])[:16]


def test_pictures_of_runs_are_no_data(tmp_path: Path) -> None:
    """Runs are in a folder of the data where a user works there."""
    for name in ("cat/1.png", "runs/one/figures/map.png", "runs/one/config.yaml", "runs/one/run.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(tmp_path, {".png"}) == [tmp_path / "cat/1.png"]


def test_a_place_that_may_not_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    check_place(tmp_path / "new/f.npz", "--out", file=True)
    monkeypatch.setattr("niso.files.os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"--out .*f.npz cannot be written: permit it in {tmp_path}, or choose"):
        check_place(tmp_path / "new/f.npz", "--out", file=True)

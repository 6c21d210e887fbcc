"""What lies in a folder and below."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from niso.files.search import files_below, natural


def test_files_below_a_folder_are_found_through_links_each_once(tmp_path: Path) -> None:
    for name in ("top/b.off", "top/.hidden.off", "top/.folder/a.off", "top/a.txt", "elsewhere/C.OFF"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "top" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "top")
    (tmp_path / "top" / "lost.off").symlink_to("nowhere")
    (tmp_path / "top" / "a-link").symlink_to("z")  # by its own name
    (tmp_path / "top" / "z").mkdir()
    (tmp_path / "top" / "z" / "d.off").touch()
    found = files_below(tmp_path / "top", {".off"})
    assert found.pop() == tmp_path / "top" / "z" / "d.off"
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


def test_pictures_of_runs_are_no_data(tmp_path: Path) -> None:
    """Runs are in a folder of the data where a user works there."""
    for name in ("cat/1.png", "runs/one/figures/map.png", "runs/one/config.yaml", "runs/one/run.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(tmp_path, {".png"}) == [tmp_path / "cat/1.png"]


def test_names_are_sorted_by_their_numbers_of_any_length_and_script():
    names = ["frame²", "frame10", "frame2", "frame007", f"frame{'9' * 5000}", "frame", "frame1b"]
    assert sorted(names, key=natural) == ["frame", "frame1b", "frame2", "frame007", "frame10", names[4], "frame²"]

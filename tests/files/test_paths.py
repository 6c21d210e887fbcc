"""Paths that users give."""

from __future__ import annotations

import pytest

from niso.errors import InputError
from niso.files.paths import check_place


def test_a_place_that_may_not_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    check_place(tmp_path / "new/f.npz", "--out", file=True)
    monkeypatch.setattr("niso.files.paths.os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"--out .*f.npz cannot be written: permit it in {tmp_path}, or choose"):
        check_place(tmp_path / "new/f.npz", "--out", file=True)

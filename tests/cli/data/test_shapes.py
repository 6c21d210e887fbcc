"""`niso data …`: what it makes, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from niso.data.shapes.prepared import open_shapes, prepared_names
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import write_off
from niso.geometry.mesh.surface import Mesh

TINY = "--height 8 --width 16 --variants 1 --eigenpairs 10 --times 2 --tolerance 0.5 --workers 1".split()


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Three stretched spheres of two classes."""
    ball = meshes.icosphere(1)
    for number, name in enumerate(("egg/a", "egg/b", "pea/a")):
        write_off(tmp_path / "in" / f"{name}.off", Mesh(ball.vertices * [1, 1, 1 + number / 4], ball.faces))
    return tmp_path / "in"


def test_prepare_and_go_on(niso, given: Path, tmp_path: Path) -> None:
    status, out, err = niso("data", "prepare", "shapes", given, tmp_path / "out", *TINY)
    assert status == 0, err
    assert out.startswith(f"3 shapes prepared in {tmp_path / 'out'}, 0 refused\nclass  shapes  distortion  flipped")
    assert re.search(r"^egg +2 +1\.\d\d +0\.00% +0 +0 ", out, re.M) and re.search(r"^all +3 ", out, re.M)
    assert re.search(r"^egg/a: distortion 1\.\d\d, 0\.00% of its area flipped; the grid keeps R² ", err, re.M)
    shapes = open_shapes(tmp_path / "out")
    assert shapes.names == ["egg/a", "egg/b", "pea/a"] and shapes.maps(0).shape == (2, 2, 8, 16)
    written = json.loads((tmp_path / "out/parameters.json").read_text())
    assert written["classes"] == ["egg", "pea"] and written["eigenpairs"] == 10 and written["distance"] == 1.2
    status, out, _ = niso("data", "prepare", "shapes", given, tmp_path / "out", *TINY)
    assert status == 0 and out.startswith(f"0 shapes prepared in {tmp_path / 'out'}, 3 were there, 0 refused\n")


def test_refused_shapes_are_listed_and_the_status_says_so(niso, given: Path, tmp_path: Path) -> None:
    (given / "egg/b.off").write_text("OFF\n3 1 0\n")
    status, out, err = niso("data", "prepare", "shapes", given, tmp_path / "out", *TINY)
    assert status == 3
    assert out.startswith(f"2 shapes prepared in {tmp_path / 'out'}, 1 refused\n")
    assert "refused egg/b: " in err and "b.off is truncated" in err and "Traceback" not in err
    assert open_shapes(tmp_path / "out").names == ["egg/a", "pea/a"]


@pytest.mark.skipif(sys.platform == "win32", reason="file names there hold no line breaks")
def test_a_refused_shape_is_one_line_whatever_its_name(niso, given: Path, tmp_path: Path) -> None:
    (given / "egg/b.off").rename(given / "egg/two\nlines.off").write_text("OFF\n3 1 0\n")
    status, _, err = niso("data", "prepare", "shapes", given, tmp_path / "out", *TINY)
    assert status == 3 and re.search(r"^refused egg/two lines: .* is truncated", err, re.M)


def test_a_table_of_labels(niso, given: Path, tmp_path: Path) -> None:
    (given / "labels.csv").write_text("file,label\negg/a.off,x\npea/a.off,y\n")
    assert niso("data", "prepare", "shapes", given / "labels.csv", tmp_path / "out", *TINY, "--leave-out", "y")[0] == 0
    assert open_shapes(tmp_path / "out").names == ["x/a"]


@pytest.mark.slow
def test_make_and_prepare(niso, given: Path, tmp_path: Path) -> None:
    call = ["data", "shapes", tmp_path / "made", "--originals", given / "egg", "--per-class", "2"]
    assert niso(*call)[:2] == (0, f"4 shapes in {tmp_path / 'made'}\n")
    assert niso("data", "prepare", "shapes", tmp_path / "made", tmp_path / "out", *TINY)[0] == 0
    assert open_shapes(tmp_path / "out").classes == ["a", "b"]


def test_embedded_classes(niso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from niso.data.shapes import family as shape_family

    monkeypatch.setattr(shape_family, "PLANS", {"dumbbell": shape_family.PLANS["dumbbell"]})
    status, out, err = niso("data", "shapes", tmp_path / "made", "--per-class", "1", "--vertices", "300")
    assert (status, out) == (0, f"1 shape in {tmp_path / 'made'}\n") and "make 1/1" in err
    assert (
        err.endswith("prepare them with a larger --tolerance\n") and "\n! of fewer than 700 vertices `niso data" in err
    )
    assert "With fewer than 700" in " ".join(niso("data", "shapes", "--help").out.split())
    err = niso("data", "shapes", tmp_path / "more", "--per-class", "1", "--vertices", "700").err
    assert "fewer than" not in err
    assert (tmp_path / "made/dumbbell/dumbbell_000.off").read_text().startswith("OFF\n300 596 0\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("data prepare", "`niso data prepare` needs a command; choose from shapes, co3d, video"),
        ("data prepare co3", "unknown command 'data prepare co3'; did you mean co3d?"),
        ("data shape", "did you mean shapes?"),
        ("data shapes", "`niso data shapes` needs OUT"),
        ("data shapes out --per-class 0", "per_class must be positive, got 0"),
        ("data shapes out --strength nan", "strength must not be negative, got nan"),
        ("data shapes out --originals none", "--originals none does not exist"),
        ("data prepare shapes in", "OUT"),
        ("data prepare shapes none out", "none does not exist"),
        ("data prepare shapes none out --workers 0", "workers must be positive, got 0"),
        ("data prepare shapes in out --height x", "must be a whole number"),
        ("data prepare shapes in out --distance 0.5", "distance must be above 1, got 0.5"),
        ("data prepare shapes in out --variant 3", "--variant"),
        ("data prepare shapes in out --workers 0", "workers must be positive, got 0"),
        ("data prepare shapes in in", "in is not empty and holds no prepared shapes"),
        ("data prepare shapes in out --leave-out eg", "no class 'eg' to leave out; did you mean egg?"),
    ],
)
def test_wrong_calls(refused, given: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str) -> None:
    monkeypatch.chdir(given.parent)
    assert message in refused(*words.split())
    assert not (given.parent / "out").exists()


def test_help(niso) -> None:
    for words, expected in (("data --help", "prepare shapes IN OUT"), ("data prepare shapes -h", "--variants")):
        status, out, _ = niso(*words.split())
        assert status == 0 and expected in out
    assert niso("data")[0] == 2


@pytest.mark.slow
def test_killed_at_any_moment_the_same_command_goes_on(start, niso, given: Path, tmp_path: Path) -> None:
    ball = meshes.icosphere(3)
    for number in range(8):
        write_off(given / "ball" / f"{number}.off", Mesh(ball.vertices * [1, 1, 1 + number / 40], ball.faces))
    call = ["data", "prepare", "shapes", given, tmp_path / "out", *TINY]
    process = start(*call)
    while len(prepared_names(tmp_path / "out")) < 3 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = len(prepared_names(tmp_path / "out"))
    assert 3 <= before < 11
    refusal = niso("data", "prepare", "shapes", given, tmp_path / "out", *TINY, "--seed", "1")
    assert refusal.status == 2 and "were prepared with seed 0, not 1" in refusal.err
    status, out, err = niso(*call)
    assert status == 0, err
    assert out.startswith(f"{11 - before} shapes prepared in {tmp_path / 'out'}, {before} were there, 0 refused\n")
    assert len(open_shapes(tmp_path / "out").names) == 11


def test_a_full_disk(refused, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from niso.files import writing

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    said = refused("data", "prepare", "shapes", given, tmp_path / "out", *TINY)
    assert "parameters.json" in said or str(tmp_path / "out") in said
    assert "No space left on device" in said and "give the same command again" in said


def test_interrupted(niso, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from niso.data.shapes import family
    from niso.data.shapes import preparation as shape_folder

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(family, "shape", interrupt)
    status, _, err = niso("data", "shapes", tmp_path / "made")
    assert status == 130 and "interrupted; the same command makes them anew" in err

    monkeypatch.setattr(shape_folder, "prepare_shape", interrupt)
    status, _, err = niso("data", "prepare", "shapes", given, tmp_path / "out", *TINY)
    assert status == 130 and "interrupted; give the same command again to go on" in err

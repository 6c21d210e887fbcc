"""Many shapes: refused ones are named and the rest goes on; whatever interrupts it, nothing half-done is data."""

from __future__ import annotations

import errno
import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from niso.data.prepared import check_folder
from niso.data.shapes.preparation import Preparation, prepare_folder, prepare_shape
from niso.data.shapes.prepared import open_shapes, prepared_names
from niso.data.shapes.sources import Source, find_sources
from niso.errors import InputError
from niso.files.locks import locked
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import write_off
from niso.geometry.mesh.surface import Mesh

TINY = Preparation(height=8, width=16, variants=1, eigenpairs=10, times=2, tolerance=0.5)


def tube() -> Mesh:
    """A torus of 6 × 4 quadrilaterals, each of two triangles."""
    u, v = (axis.ravel() for axis in np.meshgrid(np.arange(6), np.arange(4), indexing="ij"))
    long, short = u * np.pi / 3, v * np.pi / 2
    points = np.stack(((2 + np.cos(short)) * np.cos(long), (2 + np.cos(short)) * np.sin(long), np.sin(short)), axis=1)
    a, b, c, d = (((u + i) % 6) * 4 + (v + j) % 4 for i, j in ((0, 0), (1, 0), (1, 1), (0, 1)))
    return Mesh(points, np.concatenate((np.stack((a, b, c), 1), np.stack((a, c, d), 1))))


def ball(stretch: float = 1.0) -> Mesh:
    sphere = meshes.icosphere(1)
    return Mesh(sphere.vertices * np.array((1.0, 1.0, stretch)), sphere.faces)


def write_bad(folder: Path) -> dict[str, str]:
    """One bad mesh of every kind, and what must be said of it."""
    good = ball()
    nan = good.vertices.copy()
    nan[3] = np.nan
    two = Mesh(np.concatenate((good.vertices, good.vertices + 9)), np.concatenate((good.faces, good.faces + 42)))
    bad = {
        "open": (Mesh(good.vertices, good.faces[1:]), "is open: it has 3 boundary edges"),
        "fins": (Mesh(good.vertices, np.append(good.faces, good.faces[:1], 0)), "is not a manifold"),
        "torus": (tube(), "has genus 1"),
        "two": (two, "has 2 components"),
        "nothing": (Mesh(good.vertices[:0], good.faces[:0]), "is empty"),
        "nan": (Mesh(nan, good.faces), "not finite"),
    }
    for name, (mesh, _) in bad.items():
        write_off(folder / "bad" / f"{name}.off", mesh)
    write_off(folder / "bad" / "short.off", good)
    whole = (folder / "bad" / "short.off").read_bytes()
    (folder / "bad" / "short.off").write_bytes(whole[: len(whole) // 2])
    (folder / "bad" / "text.off").write_text("no mesh")
    (folder / "bad" / "lost.off").symlink_to("nowhere.off")
    told = {"short": "is truncated", "text": "is damaged", "lost": "cannot be read: No such file"}
    return {name: message for name, (_, message) in bad.items()} | told


@pytest.fixture(autouse=True)
def prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mesh is prepared once for all tests: these are about what becomes of the results."""
    monkeypatch.setattr("niso.data.shapes.preparation.prepare_shape", remembered)


REMEMBERED: dict[tuple, tuple] = {}


def remembered(source: Source, preparation: Preparation) -> tuple:
    key = source.name, source.digest(), preparation
    if key not in REMEMBERED:
        REMEMBERED[key] = prepare_shape(source, preparation)
    return REMEMBERED[key]


@pytest.fixture
def meshes_folder(tmp_path: Path) -> Path:
    for number in range(4):
        write_off(tmp_path / "in" / "good" / f"{number}.off", ball(1 + number / 3))
    return tmp_path / "in"


def names_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    )


def whole(folder: Path) -> dict[str, bytes]:
    """Contents of all files, without how long things took."""
    found = {name: (folder / name).read_bytes() for name in names_of(folder)}
    facts = {name: json.loads(content) for name, content in found.items() if name.endswith(".json")}
    return found | {name: json.dumps({**values, "seconds": 0}).encode() for name, values in facts.items()}


def test_every_bad_mesh_is_named_and_the_rest_goes_on(tmp_path: Path, meshes_folder: Path) -> None:
    bad = write_bad(meshes_folder)
    told: dict[str, str | None] = {}
    out = tmp_path / "out"
    outcome = prepare_folder(find_sources(meshes_folder), out, TINY, report=told.__setitem__)
    assert (outcome.prepared, outcome.kept) == (4, 0)
    assert outcome.refused == {name: problem for name, problem in told.items() if problem}
    assert json.loads((out / "refused.json").read_text()) == outcome.refused
    assert outcome.refused.keys() == {f"bad/{name}" for name in bad}
    for name, message in bad.items():
        assert message in outcome.refused[f"bad/{name}"] and f"bad/{name}" in outcome.refused[f"bad/{name}"]
        assert "\n" not in outcome.refused[f"bad/{name}"]
    shapes = open_shapes(out)
    assert shapes.names == [f"good/{number}" for number in range(4)] and shapes.variants == 2
    assert not (out / "bad").exists()


def test_work_and_results_can_be_sent_between_processes(
    tmp_path: Path, meshes_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_workers.py` starts real processes, and so do the frames' tests."""

    def copies(function: Callable, items: Iterable, workers: int) -> Iterator:
        copy = pickle.loads(pickle.dumps(function))
        return (pickle.loads(pickle.dumps(copy(pickle.loads(pickle.dumps(item))))) for item in items)

    (meshes_folder / "good/text.off").write_text("no mesh")
    for workers in ("1", "2"):
        outcome = prepare_folder(find_sources(meshes_folder), tmp_path / workers, TINY)
        assert outcome.prepared == 4 and list(outcome.refused) == ["good/text"]
        monkeypatch.setattr("niso.data.prepared.unordered", copies)
    assert whole(tmp_path / "1") == whole(tmp_path / "2")


def test_finished_shapes_are_kept_and_only_those(tmp_path: Path, meshes_folder: Path) -> None:
    out, sources = tmp_path / "out", find_sources(meshes_folder)
    assert prepare_folder(sources, out, TINY) == (4, 0, {}, {})
    reference = whole(out)
    assert prepare_folder(sources, out, TINY) == (0, 4, {}, {})
    (out / "good/0.json").unlink()  # killed between the two files
    (out / "good/1.npy").write_bytes((out / "good/1.npy").read_bytes()[:-1])
    (out / "good/2.json").write_text("{")
    assert prepare_folder(sources, out, TINY) == (3, 1, {}, {})
    assert whole(out) == reference
    write_off(meshes_folder / "good/3.off", ball(1.7))
    assert prepare_folder(find_sources(meshes_folder), out, TINY) == (1, 3, {}, {})
    assert whole(out)["good/3.npy"] != reference["good/3.npy"]
    (meshes_folder / "good/3.off").write_text("OFF")
    outcome = prepare_folder(find_sources(meshes_folder), out, TINY)
    assert outcome.kept == 3 and "truncated" in outcome.refused["good/3"]
    assert prepared_names(out) == ["good/0", "good/1", "good/2"]  # not as it was before


def test_shapes_may_be_added_but_not_taken_away(tmp_path: Path, meshes_folder: Path) -> None:
    out, sources = tmp_path / "out", find_sources(meshes_folder)
    prepare_folder(sources[:2], out, TINY)
    assert prepare_folder(sources, out, TINY) == (2, 2, {}, {})
    with pytest.raises(InputError, match=r"out holds good/3, which is not among the shapes"):
        prepare_folder(sources[:3], out, TINY)


@pytest.mark.parametrize(("name", "value"), [("variants", 2), ("seed", 1), ("layout", "driscoll-healy")])
def test_another_preparation_is_refused(tmp_path: Path, meshes_folder: Path, name: str, value: object) -> None:
    out, sources = tmp_path / "out", find_sources(meshes_folder)[:1]
    prepare_folder(sources, out, TINY)
    before = whole(out)
    with pytest.raises(InputError, match=rf"were prepared with {name} \S+, not {value}: choose another folder"):
        prepare_folder(sources, out, replace(TINY, **{name: value}))
    assert whole(out) == before


def test_wrong_folders_are_refused(tmp_path: Path, meshes_folder: Path) -> None:
    sources = find_sources(meshes_folder)
    with pytest.raises(InputError, match="in is not empty and holds no prepared shapes"):
        prepare_folder(sources, meshes_folder, TINY)
    (tmp_path / "new").mkdir()
    for name in (".DS_Store", ".lock", ".parameters.json.999999999-1.tmp"):  # the last of a process killed at once
        (tmp_path / "new" / name).touch()
    assert not check_folder(tmp_path / "new", "shapes", {})
    with pytest.raises(InputError, match=r"0.off is not a folder"):
        prepare_folder(sources, meshes_folder / "good/0.off", TINY)
    with pytest.raises(InputError, match="workers must be at least 1"):
        prepare_folder(sources, tmp_path / "out", TINY, workers=0)
    with pytest.raises(InputError, match=r"cannot write .* \(Not a directory\)"):
        prepare_folder(sources, meshes_folder / "good/0.off/out", TINY)


def test_one_process_at_a_time(tmp_path: Path, meshes_folder: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with locked(out), pytest.raises(InputError, match="another process works on"):
        prepare_folder(find_sources(meshes_folder), out, TINY)


@pytest.mark.parametrize("full_at", range(1, 17, 2))
def test_a_full_disk_is_named_and_nothing_half_written_is_left(
    tmp_path: Path, meshes_folder: Path, monkeypatch: pytest.MonkeyPatch, full_at: int
) -> None:
    """The disk is full at one of: parameters, maps, meshes and facts of two shapes, the list of refused ones."""
    out, sources = tmp_path / "out", find_sources(meshes_folder)[:2]
    written, sync = [], os.fsync

    def full(file: int) -> None:
        written.append(file)
        if len(written) == full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError, match=r"cannot write .*No space left on device.*free space, then .*the same command again"
    ):
        prepare_folder(sources, out, TINY)
    monkeypatch.undo()
    assert all(name.endswith((".npy", ".npz", ".json")) and ".tmp" not in name for name in names_of(out))
    for name in prepared_names(out):
        assert np.load(out / f"{name}.npy").shape == (2, 2, 8, 16)
    with pytest.raises(InputError, match=r"is not finished|holds no prepared shapes"):
        open_shapes(out)
    outcome = prepare_folder(sources, out, TINY)
    assert outcome.prepared + outcome.kept == 2 and len(open_shapes(out).names) == 2

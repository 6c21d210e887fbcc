"""Prepared shapes: what is written is read, and nothing that is not whole is taken for data."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from niso.data.shapes import summary
from niso.data.shapes.prepared import (
    FORMAT,
    PreparedShapes,
    Surface,
    open_shapes,
    prepared_names,
    resolved_by_float16,
    statistics,
    write_shape,
)
from niso.errors import InputError

NAMES = [f"{label}/{label}{number}" for label in ("cat", "dog", "owl") for number in range(4)]


def random_maps(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((3, 2, 4, 8)).astype(np.float16)


def surface(seed: int) -> np.ndarray:
    """Values of two channels at 50 points of equal area."""
    return np.random.default_rng(seed).standard_normal((2, 50)) + np.array([[1.0], [seed]])


def facts(seed: int) -> dict:
    values = surface(seed)
    return {"mean": values.mean(1).tolist(), "square": (values**2).mean(1).tolist(), "grid_r2": [0.5, None, 0.1 * seed]}


MESH = Surface(np.eye(4, 3) * 1.5, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]), np.full((4, 3), 1 / 3))
"""With directions that single precision does not hold."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve shapes of three classes, two channels."""
    for seed, name in enumerate(NAMES):
        write_shape(tmp_path, name, random_maps(seed), facts(seed), MESH)
    parameters = {"format": FORMAT, "classes": ["cat", "dog", "owl"], "layout": "poles"}
    (tmp_path / "parameters.json").write_text(json.dumps(parameters))
    (tmp_path / "refused.json").write_text("{}")
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as problem:
        open_shapes(folder)
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_what_was_written_is_read(folder: Path) -> None:
    shapes = open_shapes(folder)
    assert shapes.names == NAMES and shapes.classes == ["cat", "dog", "owl"]
    assert shapes.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert (shapes.variants, shapes.channels, shapes.height, shapes.width) == (3, 2, 4, 8)
    for number in range(len(NAMES)):
        maps = shapes.maps(number)
        assert isinstance(maps, np.memmap)
        np.testing.assert_array_equal(maps, random_maps(number))
        mean, square = shapes.moments(number)
        assert [mean.tolist(), square.tolist(), shapes.grid_r2(number)] == list(facts(number).values())


@pytest.mark.parametrize("mean", [0.0, 1e-3, 24.0])
def test_channels_are_told_apart_where_rounding_leaves_their_values(mean: float) -> None:
    deviations = torch.logspace(-9, 0, 10, dtype=torch.float64)
    values = mean + deviations * torch.randn(5_000, 10, generator=torch.Generator().manual_seed(0)).double()
    error = (values.half().double() - values).square().mean(0).sqrt() / deviations
    resolved = resolved_by_float16(torch.full_like(deviations, mean), deviations)
    assert resolved[-1] and not resolved[0]
    assert (error[resolved] < 0.15).all() and (error[~resolved] > 0.04).all()


def test_the_table_names_channels_that_float16_does_not_hold(folder: Path) -> None:
    quality = {"distortion": 1.0, "flipped_area": 0.0}
    for seed, name in enumerate(NAMES):
        values = surface(seed) * np.array([[1.0], [1e-9]])
        moments = {"mean": values.mean(1).tolist(), "square": (values**2).mean(1).tolist()}
        write_shape(folder, name, random_maps(seed), facts(seed) | moments | quality, MESH)
    flat, *_ = summary.table(folder)[5:]
    assert flat.startswith("channel 2 of 2: signatures have nearly one value") and "--last-time" in flat


def test_the_line_of_a_shape_counts_its_variants(folder: Path) -> None:
    quality = {"distortion": 1.0, "flipped_area": 0.0, "repaired_variants": 1, "redrawn": 2}
    write_shape(folder, NAMES[0], random_maps(0), facts(0) | quality, MESH)
    assert "flipped, 1 variant repaired, 2 variants drawn again; the grid" in summary.line(folder, NAMES[0])


def test_the_layout_is_that_of_the_preparation(folder: Path) -> None:
    assert open_shapes(folder).layout == "poles"
    (folder / "parameters.json").write_text(json.dumps({"format": FORMAT, "layout": "driscoll-healy"}))
    assert open_shapes(folder).layout == "driscoll-healy"


def test_statistics_are_those_of_all_points_of_the_members_alone(folder: Path) -> None:
    members = [1, 5, 10]
    points = np.concatenate([surface(seed) for seed in members], axis=1)
    for given in (members, torch.tensor(members)):
        mean, std = statistics(open_shapes(folder), given)
        np.testing.assert_allclose(mean, points.mean(1))
        np.testing.assert_allclose(std, points.std(1))


def test_a_shape_without_facts_is_not_prepared(folder: Path) -> None:
    (folder / "dog" / "dog2.json").unlink()
    shapes = open_shapes(folder)
    assert len(shapes.names) == 11 and "dog/dog2" not in shapes.names
    assert prepared_names(folder) == shapes.names


def test_meshes_are_read(folder: Path) -> None:
    shapes = open_shapes(folder)
    for given, read in zip(MESH, shapes.surface(5), strict=True):
        np.testing.assert_array_equal(given, read)
    path = folder / f"{NAMES[5]}.npz"
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entry = archive.infolist()[1]
    start = entry.header_offset + 60  # within what is compressed
    for content in (b"", whole[:-40], whole[:start] + b"\xff" * 40 + whole[start + 40 :]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="truncated or damaged"):
            shapes.surface(5)
    path.unlink()
    with pytest.raises(InputError, match=r"npz is missing: remove its \.json and prepare the shape again"):
        shapes.surface(5)


def test_classes_can_be_left_out(folder: Path) -> None:
    shapes = open_shapes(folder)
    others = shapes.without(["dog"])
    assert others.classes == ["cat", "owl"] and others.labels.tolist() == [0] * 4 + [1] * 4
    assert others.names == NAMES[:4] + NAMES[8:]
    np.testing.assert_array_equal(others.maps(4), shapes.maps(8))


def test_files_of_a_killed_writer_are_not_read(folder: Path) -> None:
    for name in (".dog2.npy.999999999.tmp", ".dog9.json.999999999.tmp"):
        (folder / "dog" / name).write_bytes(b"half")
    assert open_shapes(folder).names == NAMES


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "parameters.json").unlink(), "has no parameters.json"),
        (lambda f: (f / "parameters.json").write_text("{"), "prepare into another folder, or empty"),
        (lambda f: (f / "parameters.json").write_text("[]"), "does not hold facts"),
        (lambda f: (f / "parameters.json").write_text('{"format": 99}'), "has format 99, and this version reads 1"),
        (
            lambda f: (f / "parameters.json").write_text('{"format": 1, "layout": "cube"}'),
            "has the unknown layout 'cube': prepare the shapes again",
        ),
        (lambda f: (f / "refused.json").unlink(), "is not finished: give the same command again"),
        (lambda f: [path.unlink() for path in f.glob("*/*.json")], "holds no shape: all were refused"),
        (lambda f: (f / "dog/dog1.npy").unlink(), "dog/dog1.npy is missing"),
        (lambda f: (f / "dog/dog1.npy").write_bytes(b""), "dog/dog1.npy is truncated or damaged"),
        (lambda f: (f / "dog/dog1.npy").write_bytes((f / "dog/dog1.npy").read_bytes()[:-2]), "dog1.npy is truncated"),
        (lambda f: np.save(f / "dog/dog1.npy", np.zeros((3, 2, 4, 8))), "holds no maps, but float64"),
        (lambda f: np.save(f / "dog/dog1.npy", random_maps(0)[:2]), "has maps of (2, 2, 4, 8), and others of"),
        (lambda f: (f / "dog/dog1.json").write_text("{}"), "dog1.json has not 2 moments"),
        (lambda f: (f / "dog/dog1.json").write_text('{"mean"'), "dog1.json"),
    ],
)
def test_damage_is_named(folder: Path, damage, message: str) -> None:
    damage(folder)
    assert message in refusal(folder)


def test_objects_are_not_unpickled(folder: Path) -> None:
    np.save(folder / "dog/dog1.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "dog1.npy is truncated or damaged" in refusal(folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "there is no such folder; make it with `niso data prepare shapes`" in refusal(tmp_path / "none")


def test_shapes_are_frozen(folder: Path) -> None:
    shapes = open_shapes(folder)
    with pytest.raises(AttributeError):
        shapes.names = []  # type: ignore[misc]  # what must not be done is done on purpose
    assert isinstance(shapes, PreparedShapes)

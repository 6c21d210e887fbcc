"""Where shapes come from: class folders, tables of labels, the layout of Conformal SHREC'11."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from niso.data.shapes.sources import find_sources
from niso.errors import InputError


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def names(*given) -> list[str]:
    return [source.name for source in find_sources(*given)]


def test_class_folders(tmp_path: Path) -> None:
    touch(tmp_path, "dog/b.OFF", "dog/a.ply", "cat/a.obj", "cat/readme.txt", "dog/.a.off", ".git/x.off")
    assert names(tmp_path) == ["cat/a", "dog/a", "dog/b"]
    assert names(tmp_path, None, ("dog",)) == ["cat/a"]


def test_a_table_of_labels(tmp_path: Path) -> None:
    touch(tmp_path, "T1.off", "deep/T2.off")
    (tmp_path / "labels.csv").write_text("file, label\nT1.off, cat\ndeep/T2.off,big dog\n", encoding="utf-8-sig")
    assert names(tmp_path / "labels.csv") == ["big dog/T2", "cat/T1"]
    assert names(tmp_path, tmp_path / "labels.csv") == ["big dog/T2", "cat/T1"]


def test_rows_that_are_repeated_count_once(tmp_path: Path) -> None:
    table = touch(tmp_path, "T1.off", "T2.off") / "labels.csv"
    table.write_text("file,label\nT1.off,cat\nT2.off,cat\nT1.off,cat\n./T2.off,cat\n")
    with pytest.warns(UserWarning, match=r"labels\.csv: 2 repeated rows left out, the first in line 4$"):
        assert names(table) == ["cat/T1", "cat/T2"]


def test_meshes_of_one_name_are_called_by_their_folders(tmp_path: Path) -> None:
    """As ShapeNet's are, in its versions 1 and 2; as few folders as tell them apart."""
    files = ["1/a/model.obj", "1/.b/model.obj", "2/a/models/m.obj", "2/b/models/m.obj", "3/model.obj"]
    labels = ["chair", "chair", "lamp", "lamp", "sofa"]
    table = touch(tmp_path, *files) / "labels.csv"
    table.write_text("file,label\n" + "".join(f"{row[0]},{row[1]}\n" for row in zip(files, labels, strict=True)))
    found = {source.name: source.mesh.relative_to(tmp_path).as_posix() for source in find_sources(table)}
    expected = ["chair/a-model", "chair/b-model", "lamp/a-models-m", "lamp/b-models-m", "sofa/model"]
    assert found == dict(zip(expected, files, strict=True))
    touch(tmp_path, "a-model.off", "1/a/model.off")
    for more in ("a-model.off", "1/a/model.off"):  # of which no folder tells
        table.write_text(f"file,label\n1/a/model.obj,chair\n1/.b/model.obj,chair\n{more},chair\n")
        assert re.search(f"a/model.obj and .*/{more} are both|{more} and .*/a/model.obj are both", refusal(table))


@pytest.mark.parametrize("variant", ["mobius_sphere/cat/T1_{}.ply", "mobius_sphere/cat/T1/{}.ply"])
def test_the_released_layout(tmp_path: Path, variant: str) -> None:
    spheres = [variant.format(number) for number in range(12)]
    touch(tmp_path, "base/cat/T1.ply", "base_sphere/cat/T1.ply", "mobius/cat/T1_0.ply", *spheres)
    touch(tmp_path, "base/cat/T10.ply", "base_sphere/cat/T10.ply", "mobius_sphere/cat/T10_0.ply")
    one, ten = find_sources(tmp_path)
    assert one.mesh == tmp_path / "base/cat/T1.ply"
    assert [str(path.relative_to(tmp_path)) for path in one.spheres] == ["base_sphere/cat/T1.ply", *spheres]
    assert len(ten.spheres) == 2


def test_two_variants_of_one_number_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "base/cat/T1.ply", "base_sphere/cat/T1.ply")
    touch(tmp_path / "mobius_sphere/cat", "T1_1.ply", "T1_01.ply")
    with pytest.raises(InputError, match=r"T1_01.ply and .*T1_1.ply both have the number 1: remove one"):
        find_sources(tmp_path)


def test_the_released_layout_without_class_folders(tmp_path: Path) -> None:
    touch(tmp_path, "base/T1.ply", "base_sphere/T1.ply", "mobius_sphere/T1_mobius_1.ply", "mobius/T1_1.ply")
    (tmp_path / "labels.csv").write_text("file,label\nT1.ply,cat\n")
    (source,) = find_sources(tmp_path, tmp_path / "labels.csv")
    assert (source.name, len(source.spheres)) == ("cat/T1", 2)


def test_a_class_may_be_called_base(tmp_path: Path) -> None:
    assert names(touch(tmp_path, "base/a.off", "other/b.off")) == ["base/a", "other/b"]


def test_the_digest_is_that_of_all_files(tmp_path: Path) -> None:
    touch(tmp_path, "base/cat/T1.ply", "base_sphere/cat/T1.ply", "mobius_sphere/cat/T1_0.ply", "mobius/cat/T1_0.ply")
    (source,) = find_sources(tmp_path)
    before = source.digest()
    assert source.digest() == before
    touch(tmp_path / "mobius_sphere/cat", "T1_0.ply")
    assert source.digest() != before
    source.mesh.unlink()
    with pytest.raises(InputError, match=r"T1.ply cannot be read: No such file"):
        source.digest()


def refusal(*given) -> str:
    with pytest.raises(InputError) as problem:
        find_sources(*given)
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_a_table_has_no_other_labels(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("file,label\n")
    assert "leave --labels out" in refusal(table, tmp_path / "more.csv")


def test_wrong_folders_are_named(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none")
    assert "holds no meshes" in refusal(tmp_path)
    touch(tmp_path, "cat/a.off", "cat/b.off")
    assert "no class 'cta' to leave out; did you mean cat?" in refusal(tmp_path, None, ("cta",))
    assert "holds no meshes" in refusal(tmp_path, None, ("cat",))
    touch(tmp_path, "cat/a.obj")
    assert "are both the shape cat/a: rename one" in refusal(tmp_path)
    assert "lacks one of the folders base, mobius" in refusal(touch(tmp_path / "r", "base/c/a.ply", "mobius/c/a_1.ply"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("file,class\na.off,cat\n", 'first line must be "file,label", not "file,class"'),
        ("file;label\na.off;cat\n", 'first line must be "file,label", not "file;label"'),
        ("a.off,cat\n", 'first line must be "file,label", not "a.off,cat"'),
        ("file,label\na.off,cat\na.off,dog\n", "line 3: a.off is cat already; remove one line"),
        ("file,label\na.off,cat\nb.off\n", "line 3: no file or no label"),
        (
            "file,label\na.off,cat,\n\na.off,cat, black\n",
            "line 4: more values than columns; put what holds a comma in quotes",
        ),
        ("file,label\na.off,../cat\n", "'../cat' cannot be the name of a folder"),
        ("file,label\na.off,.\n", "cannot be the name of a folder"),
        ("file,label\nb.off,cat\n", "b.off is missing; correct or remove the line"),
        ("file,label\nlabels.csv,cat\n", "labels.csv is not a mesh that can be read"),
        ("file,label\n", "holds no meshes"),
        ("", 'first line must be "file,label", not ""'),
        (b"\xff\xfe\x00", "invalid start byte): save it as CSV in UTF-8"),
    ],
)
def test_wrong_tables_are_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    table = touch(tmp_path, "a.off") / "labels.csv"
    table.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refusal(table)


def test_no_format_is_left_out_in_silence(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.off", "a/1.glb", "b/1.stl")
    assert [source.name for source in find_sources(tmp_path)] == ["a/1", "b/1"]
    touch(tmp_path, "a/2.FBX", "c/1.glb")
    with pytest.raises(InputError, match=r"2\.FBX is of a format that is not read, and 1 more are: convert it"):
        find_sources(tmp_path)


def test_no_mesh_is_left_out_in_silence(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.off", "b/1.off", "b/sub/deep.off", "lost.off")
    with pytest.raises(InputError, match=r"deep\.off is in no class's folder, and 1 more meshes are not"):
        find_sources(tmp_path)
    with pytest.raises(InputError, match="is a single mesh: give a folder"):
        find_sources(tmp_path / "lost.off")

"""`niso find`: pictures and arrays that are found by others."""

import shutil
import sys

import numpy as np
import pytest

import niso as library


def test_pictures_are_found_by_themselves(niso, model_folder, model_pictures, tmp_path, drawn):
    out = tmp_path / "found.npz"
    done = niso("find", model_folder, model_pictures, model_pictures / "more", "-o", out)
    assert done.status == 0 and done.err == ""
    assert f"2 queries among 3 observations in {out}\n{tmp_path / 'found.png'}\n" in done.out
    assert done.out.startswith("b.png: more/b.png (1.000), ")
    gallery, queries = (
        library.load(model_folder).read(path).values for path in (model_pictures, model_pictures / "more")
    )
    found = library.load(model_folder).find(queries, gallery, 3)
    with np.load(out) as written:
        np.testing.assert_array_equal(written["rows"], found.rows)
        np.testing.assert_array_equal(written["similarity"], found.similarity)
        assert written["rows"][:, 0].tolist() == [1, 2]
        assert written["names"].tolist() == ["b.png", "c.png"]
        assert written["gallery_names"].tolist() == ["a.png", "more/b.png", "more/c.png"]
    assert (tmp_path / "found.png").stat().st_size > 1000


@pytest.mark.skipif(sys.platform == "win32", reason="file names there hold no line breaks")
def test_names_of_any_letters_are_a_line_each_and_drawn(niso, model_folder, model_pictures, tmp_path, drawn):
    (tmp_path / "all").mkdir()
    for name in (
        "two\nlines.png",
        "数字.png",
        "a$^$b.png",
    ):  # of which the font lacks some, and some look like formulas
        shutil.copy(model_pictures / "a.png", tmp_path / "all" / name)
    done = niso("find", model_folder, tmp_path / "all", tmp_path / "all", "-o", tmp_path / "f.npz")
    assert done.status == 0 and done.err == "" and len(done.out.splitlines()) == 5
    assert "\ntwo lines.png: " in done.out and "数字.png (1.000)" in done.out
    with np.load(tmp_path / "f.npz") as written:
        assert "two\nlines.png" in written["names"]


def test_of_a_file_of_pairs_those_transformed_are_looked_for(niso, finished, tmp_path):
    x = np.random.default_rng(0).standard_normal((30, 16, 6)).astype(np.float32)
    np.savez(tmp_path / "pairs.npz", x=x, tx=x[::-1])
    words = ["find", finished, tmp_path / "pairs.npz", tmp_path / "pairs.npz", "--count", 1, "-o", tmp_path / "f.npz"]
    done = niso(*words)
    assert (
        "30 queries among 30 observations" in done.out and "0: 29 (1.000)" in done.out and "… and 10 more" in done.out
    )
    with np.load(tmp_path / "f.npz") as written:
        assert written["rows"][:, 0].tolist() == list(range(30))[::-1] and "names" not in written
    assert not (tmp_path / "f.png").exists()


def test_wrong_calls(refused, model_folder, model_pictures, tmp_path):
    said = refused("find", model_folder, model_pictures / "a.png", model_pictures, "-o", tmp_path / "f.npz")
    assert "a.png holds one observation: give two or more" in said
    assert "count must be at least 1, got 0" in refused(
        "find", model_folder, model_pictures, model_pictures, "--count", 0
    )
    assert "nowhere does not exist" in refused("find", model_folder, model_pictures, "nowhere")
    assert "--out must name an .npz file" in refused(
        "find", model_folder, model_pictures, model_pictures, "-o", "f.png"
    )
    gallery = shutil.copytree(model_pictures, tmp_path / "gallery")
    said = refused("find", model_folder, gallery, model_pictures, "-o", gallery / "f.npz")
    assert "would write pictures into" in said and not (gallery / "f.npz").exists()

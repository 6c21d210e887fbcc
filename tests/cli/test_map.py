"""`niso map`: the map between observations, and others transformed by it."""

import shutil
import sys

import numpy as np
import pytest
from PIL import Image

import niso as library


def test_the_map_of_two_pictures_is_applied_to_others(niso, model_folder, model_pictures, tmp_path):
    pictures = [model_pictures / name for name in ("a.png", "more/b.png")]
    out = tmp_path / "map.npz"
    done = niso("map", model_folder, *pictures, "--apply", model_pictures, "-o", out)
    assert done.status == 0 and f"1 map of 4×4 in {out}; ‖τa − b‖² / ‖b‖² is " in done.out
    fitted = library.load(model_folder)
    a, b, others = (fitted.read(path).values for path in (*pictures, model_pictures))
    with np.load(out) as written:
        np.testing.assert_array_equal(written["tau"], fitted.map(a, b))
        np.testing.assert_allclose(written["tau"][0] @ written["tau"][0].T, np.eye(4), atol=1e-5)
        np.testing.assert_array_equal(written["applied"], fitted.transport(others, written["tau"]))
        shown = written["applied"][1].clip(0, 255).round().astype(np.uint8).transpose(1, 2, 0)
        assert written["error"].shape == (1,) and written["eigenvalues"].shape == (4,)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "map-a.png",
        "map-more-b.png",
        "map-more-c.png",
        "map.npz",
    ]
    with Image.open(tmp_path / "map-more-b.png") as image:
        np.testing.assert_array_equal(np.asarray(image), shown)


def test_pictures_that_differ_in_their_extension_alone_are_all_written(niso, model_folder, model_pictures, tmp_path):
    folder = tmp_path / "both"
    folder.mkdir()
    for name in ("x.png", "x.bmp"):
        with Image.open(model_pictures / "a.png") as image:
            image.save(folder / name)
    one = model_pictures / "a.png"
    assert niso("map", model_folder, one, one, "--apply", folder, "-o", tmp_path / "m.npz").status == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["m-0-x.png", "m-1-x.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="file names there hold no line breaks")
def test_a_name_with_a_line_break_is_one_line(niso, model_folder, model_pictures, tmp_path):
    (tmp_path / "in").mkdir()
    shutil.copy(model_pictures / "a.png", tmp_path / "in" / "two\nlines.png")
    one = model_pictures / "a.png"
    done = niso("map", model_folder, one, one, "--apply", tmp_path / "in", "-o", tmp_path / "m.npz")
    assert done.status == 0 and done.out.splitlines()[1:] == [f"{tmp_path}/m-two lines.png"]
    assert (tmp_path / "m-two\nlines.png").is_file()


def test_a_map_for_each_pair_of_arrays(niso, model_folder, tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(ord(name)).integers(256, size=(3, 3, 8, 8)))
    done = niso("map", model_folder, tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "m.npz")
    assert done.status == 0 and "3 maps of 4×4" in done.out
    with np.load(tmp_path / "m.npz") as written:
        assert written["tau"].shape == (3, 4, 4) and "applied" not in written


def test_folders_of_pictures_go_together_by_name(niso, refused, model_folder, model_pictures, tmp_path):
    def folder(name, *pictures):
        (tmp_path / name).mkdir()
        for picture, number in pictures:
            with Image.open(model_pictures / ("a.png", "more/b.png", "more/c.png")[number]) as image:
                image.save(tmp_path / name / picture)
        return tmp_path / name

    # "n.c.png" comes before "n.png" and after "n.bmp"
    one, other = folder("A", ("n.png", 0), ("n.c.png", 1)), folder("B", ("n.bmp", 1), ("n.c.png", 2))
    third, lacking = folder("C", ("n.bmp", 2), ("n.c.bmp", 0)), folder("D", ("n.png", 0), ("m.png", 0))
    out = tmp_path / "m.npz"
    assert niso("map", model_folder, one, other, "--apply", third, "-o", out).status == 0
    fitted = library.load(model_folder)
    a, b, c = (fitted.read(model_pictures).values[[*order]] for order in ((1, 0), (2, 1), (0, 2)))
    with np.load(out) as written:
        assert written["names"].tolist() == ["n.c.png", "n.png"]
        assert written["applied_names"].tolist() == ["n.c.bmp", "n.bmp"]
        np.testing.assert_array_equal(written["tau"], fitted.map(a, b))
        np.testing.assert_array_equal(written["applied"], fitted.transport(c, written["tau"]))
    words = ["map", model_folder, one, lacking, "-o", tmp_path / "l.npz"]
    assert f"{lacking}/m.png has no picture of the same name in {one}/: add or remove it" in refused(*words)
    words[3] = other
    assert "D/m.png has no picture of the same name in " in refused(*words, "--apply", lacking)
    words[2:4] = [one / "n.png", other / "n.bmp"]
    assert niso(*words, "--apply", lacking).status == 0  # a single map
    words[2:4] = [folder("F", ("n.png", 0)), folder("G", ("n.bmp", 1))]
    assert niso(*words, "--apply", lacking).status == 0
    folder("E", ("n.png", 0), ("n.bmp", 1))
    assert "holds two pictures named n: rename one" in refused("map", model_folder, tmp_path / "E", one)


def test_a_method_without_maps_is_refused(refused, model_folder, model_pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("niso.methods.isometry.Isometry.has_maps", False)
    words = ("map", model_folder, model_pictures, model_pictures, "-o", tmp_path / "m.npz")
    assert "which has no maps" in refused(*words)


def test_a_file_that_is_given_twice_has_both_views(niso, model_folder, tmp_path):
    x, tx = np.random.default_rng(0).integers(256, size=(2, 3, 3, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "both.npz", x=x, tx=tx)
    np.savez(tmp_path / "x.npz", x=x)
    fitted = library.load(model_folder)
    for first, name, second in (("both", "both", tx), ("x", "x", x), ("x", "both", x)):
        files = tmp_path / f"{first}.npz", tmp_path / f"{name}.npz"
        assert niso("map", model_folder, *files, "-o", tmp_path / "m.npz").status == 0
        with np.load(tmp_path / "m.npz") as written:
            np.testing.assert_array_equal(written["tau"], fitted.map(x, second))


def test_a_folder_of_pairs_that_is_given_twice_has_both_views(niso, refused, model_folder, tmp_path):
    x, tx = np.random.default_rng(0).integers(256, size=(2, 3, 8, 8, 3)).astype(np.uint8)
    for folder, suffix, views in (("a", "png", x), ("B", "bmp", tx)):
        (tmp_path / "pairs" / folder).mkdir(parents=True)
        for name, pixels in zip(("1", "1.c", "10"), views, strict=True):
            Image.fromarray(pixels).save(tmp_path / "pairs" / folder / f"{name}.{suffix}")
    pairs, fitted = tmp_path / "pairs", library.load(model_folder)
    done = niso("map", model_folder, pairs, pairs, "-o", tmp_path / "m.npz")
    assert done.status == 0 and "pairs holds pairs: of these tx is read, the pictures of B/" in done.err
    with np.load(tmp_path / "m.npz") as written:
        expected = fitted.map(*(views.transpose(0, 3, 1, 2) for views in (x, tx)))
        order = [("1.png", "1.c.png", "10.png").index(name) for name in written["names"]]
        np.testing.assert_allclose(written["tau"], expected[order], atol=1e-6)
    found = fitted.read(pairs)
    assert len(found.values) == 3 and found.label is None
    (pairs / "B" / "1.bmp").unlink()
    assert "a/1.png has no picture of the same name in b/" in refused("map", model_folder, pairs, pairs)
    for name in ("1.c", "10"):  # two folders of other pictures are no pairs
        (pairs / "B" / f"{name}.bmp").rename(pairs / "B" / f"other{name}.bmp")
    found = fitted.read(pairs)
    assert len(found.values) == 5 and found.label.tolist() == ["B"] * 2 + ["a"] * 3


@pytest.mark.parametrize("place", ["A/m.npz", "A/below/m.npz"])
def test_pictures_are_not_written_into_a_folder_that_is_read(refused, model_folder, model_pictures, tmp_path, place):
    shutil.copytree(model_pictures, tmp_path / "A")
    (tmp_path / "A" / "below").mkdir()
    before = sorted(tmp_path.rglob("*"))
    words = ["map", model_folder, *[model_pictures / "a.png"] * 2, "--apply", tmp_path / "A", "-o", tmp_path / place]
    assert f"would write pictures into {tmp_path / 'A'}, which is read: choose another folder" in refused(*words)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_does_not_go_together_is_refused(refused, model_folder, model_pictures, tmp_path):
    one = model_pictures / "a.png"
    assert "has 3 observations and" in refused("map", model_folder, model_pictures, one)
    answer = refused("map", model_folder, *[model_pictures / "more"] * 2, "--apply", one)
    assert "has 1 observation for 2 maps: give one for each" in answer
    assert "nowhere does not exist" in refused("map", model_folder, one, one, "--apply", "nowhere")


def test_pictures_of_others_are_not_overwritten(niso, refused, model_folder, model_pictures, tmp_path):
    """Neither what is read nor what was there before; those of an earlier call with the same --out are."""
    one, folder = model_pictures / "a.png", tmp_path / "pictures"
    folder.mkdir()
    for name in ("x.png", "m-x.png"):
        shutil.copy(one, folder / name)
    before = (folder / "m-x.png").read_bytes()
    words = ["map", model_folder, one, one, "--apply", folder / "x.png", "-o"]
    assert "m-x.png, which is there: choose another file" in refused(*words, folder / "m.npz")
    assert not (folder / "m.npz").exists()
    assert niso(*words, tmp_path / "m.npz").status == 0 == niso(*words, tmp_path / "m.npz").status
    words[2] = folder / "m-x.png"
    np.savez(folder / "m.npz", tau=np.zeros((1, 4, 4)))  # of an earlier call
    assert "would overwrite" in refused(*words, folder / "m.npz")
    assert (folder / "m-x.png").read_bytes() == before


def test_pictures_of_an_earlier_call_do_not_stay_beside_new_numbers(
    niso, model_folder, model_pictures, tmp_path, monkeypatch
):
    one = model_pictures / "a.png"
    words = ["map", model_folder, one, one, "--apply", one, "-o", tmp_path / "m.npz"]
    assert niso(*words).status == 0 and (tmp_path / "m-a.png").exists()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("niso.data.pairs.observations.write_pictures", full)
    assert niso(*words).status == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m.npz"]

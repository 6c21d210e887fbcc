"""`niso features`: pictures and arrays in, an .npz file out."""

import shutil

import numpy as np
from PIL import Image

import niso as library
from niso.data.pairs.clips import read_frames
from niso.data.video.footage import find_footage


def test_features_of_pictures(niso, model_folder, model_pictures, tmp_path):
    out = tmp_path / "features.npz"
    done = niso("features", model_folder, model_pictures, "-o", out)
    assert done.status == 0 and f"3 observations in {out}: coefficients 3×4×4" in done.out and done.err == ""
    with np.load(out) as written:
        assert written["names"].tolist() == ["a.png", "more/b.png", "more/c.png"]
        fitted = library.load(model_folder)
        x = fitted.read(model_pictures).values
        np.testing.assert_array_equal(written["coefficients"], fitted.encode(x))
        np.testing.assert_array_equal(written["invariants"], fitted.invariants(x))
        np.testing.assert_array_equal(written["eigenvalues"], fitted.spectrum.eigenvalues)


def test_folders_of_classes_label_their_pictures(niso, model_folder, model_pictures, tmp_path):
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/more/2.png"):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(model_pictures / "a.png", tmp_path / "all" / name)
    assert niso("features", model_folder, tmp_path / "all", "-o", tmp_path / "f.npz").status == 0
    with np.load(tmp_path / "f.npz") as written:
        assert written["label"].tolist() == ["cat", "cat", "dog", "dog"]
    shutil.copytree(tmp_path / "all", tmp_path / "parts" / "train")
    shutil.copytree(tmp_path / "all", tmp_path / "parts" / "test")
    done = niso("features", model_folder, tmp_path / "parts", "-o", tmp_path / "g.npz")
    assert done.status == 0 and "there are no labels: " in done.err and "are parts of a data set" in done.err
    with np.load(tmp_path / "g.npz") as written:
        assert "label" not in written and len(written["names"]) == 8


def test_features_of_arrays_with_labels_and_of_a_run(niso, model_folder, finished, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros((5, 3, 8, 8), np.uint8), label=list("aabbb"))
    assert niso("features", model_folder, tmp_path / "x.npz", "--out", tmp_path / "f.npz").status == 0
    with np.load(tmp_path / "f.npz") as written:
        assert written["label"].tolist() == list("aabbb") and len(written["coefficients"]) == 5
    np.save(tmp_path / "crops.npy", np.random.default_rng(0).standard_normal((4, 16, 6)).astype(np.float16))
    assert "coefficients 4×16×6" in niso("features", finished, tmp_path / "crops.npy", "-o", tmp_path / "g.npz").out


def test_features_of_the_frames_of_videos(niso, refused, write_video, model_folder, tmp_path):
    for name in ("run/a", "run/b", "walk/c"):
        write_video(tmp_path / f"all/{name}.mp4", count=3 if name == "run/a" else 2)
    (tmp_path / "all/walk/d").mkdir()  # beside videos a clip, as in a run
    Image.new("RGB", (9, 8), "white").save(tmp_path / "all/walk/d/1.png")
    done = niso("features", model_folder, tmp_path / "all", "-o", tmp_path / "f.npz")
    assert done.status == 0 and "folders of pictures are clips, too (walk/d): to have pictures by" in done.err
    with np.load(tmp_path / "f.npz") as written:
        assert written["names"].tolist()[:4] == [*(f"run/a/00000{n}" for n in range(3)), "run/b/000000"]
        assert written["label"].tolist() == ["run"] * 5 + ["walk"] * 3 and written["names"][7] == "walk/d/000000"
        fitted = library.load(model_folder)
        x = read_frames(*find_footage(tmp_path / "all/walk/c.mp4"), 8, 0, 1.0)[0]
        np.testing.assert_allclose(written["coefficients"][5:7], fitted.encode(x), rtol=1e-5, atol=1e-6)
    Image.new("RGB", (9, 8)).save(tmp_path / "all/poster.png")
    said = refused("features", model_folder, tmp_path / "all", "-o", tmp_path / "g.npz")
    assert "1 picture in no clip (poster.png)" in said
    (tmp_path / "all/poster.png").unlink()
    video = tmp_path / "all/run/a.mp4"
    assert niso("map", model_folder, video, video, "-o", tmp_path / "m.npz").out.startswith("3 maps")
    video.write_bytes(b"")
    assert "a.mp4" in refused("features", model_folder, tmp_path / "all", "-o", tmp_path / "g.npz")
    assert not (tmp_path / "g.npz").exists()


def test_some_of_the_pictures_may_be_dark(niso, model_folder, tmp_path):
    values = 9.0 + np.zeros((257, 3, 8, 1)) + np.arange(8)
    values[[0, -1]] = 0.5
    np.save(tmp_path / "x.npy", values)
    assert niso("features", model_folder, tmp_path / "x.npy", "-o", tmp_path / "f.npz").status == 0


def test_bad_data_is_refused_in_one_line(refused, model_folder, model_pictures, finished, tmp_path):
    def answer(array, run=model_folder):
        np.save(tmp_path / "x.npy", array)
        return refused("features", run, tmp_path / "x.npy", "-o", tmp_path / "f.npz")

    assert "observations must be (n, 3, 8, 8), as those trained on, not (2, 3, 9, 9)" in answer(
        np.full((2, 3, 9, 9), 9.0)
    )
    half = np.full((2, 3, 8, 8), 0.5)
    assert "observations lie between 0.5 and 0.5, but those trained on between 0 and 255" in answer(half)
    assert "x[1] holds NaN" in answer(np.stack([np.full((3, 8, 8), 9.0), np.full((3, 8, 8), np.nan)]))
    assert "x is empty" in answer(np.ones((0, 3, 8, 8)))
    assert "x has 0 axes: give observations along the first" in answer(np.float32(3))
    assert "never unpickled" in answer(np.array([{}]))
    assert "arrays of 16 × 9: give such arrays" in refused("features", finished, model_pictures)
    assert "nowhere does not exist" in refused("features", model_folder, "nowhere")
    assert "--out must name an .npz file" in refused("features", model_folder, model_pictures, "-o", "f.csv")
    np.savez(tmp_path / "mine.npz", x=np.full((2, 3, 8, 8), 9.0))
    before = (tmp_path / "mine.npz").read_bytes()
    assert "would overwrite what is read" in refused(
        "features", model_folder, tmp_path / "mine.npz", "-o", tmp_path / "mine.npz"
    )
    assert (tmp_path / "mine.npz").read_bytes() == before
    np.save(tmp_path / "x.npy", np.full((2, 3, 8, 8), 9.0))
    (tmp_path / "damaged.npz").write_bytes(b"PK")
    for name in ("mine.npz", "damaged.npz"):
        said = refused("features", model_folder, tmp_path / "x.npy", "-o", tmp_path / name)
        assert f"{name} is there, and is no file of this command: choose another, or remove it" in said
    assert (tmp_path / "mine.npz").read_bytes() == before
    assert "a mask is no picture" in answer(np.ones((2, 3, 8, 8), bool))
    (tmp_path / "empty").mkdir()
    assert "holds no observations: give .npy" in refused("features", model_folder, tmp_path / "empty")
    (tmp_path / "prepared/cat").mkdir(parents=True)
    (tmp_path / "prepared/parameters.json").touch()
    assert "give .npy" in refused("features", model_folder, tmp_path / "prepared")  # all shapes were refused
    (tmp_path / "prepared/walk.frames").touch()
    assert "give the videos that it was prepared" in refused("features", model_folder, tmp_path / "prepared")
    (tmp_path / "prepared/cat/a.npy").touch()
    assert "the file of a shape, such as " in refused("features", model_folder, tmp_path / "prepared")
    (tmp_path / "cat.obj").touch()
    assert "prepare meshes by `niso data prepare shapes`" in refused("features", model_folder, tmp_path / "cat.obj")
    (tmp_path / "empty/walk.mp4").touch()
    assert "holds videos, but the model was trained on arrays" in refused("features", finished, tmp_path / "empty")
    assert "neither a run folder nor a saved model" in refused("features", tmp_path / "empty", model_pictures)
    (tmp_path / "empty/walk.mp4").unlink()
    for name in ("cat_1", "cat_0"):
        np.save(tmp_path / f"empty/{name}.npy", np.full((2, 16, 9), 0.1))
    several = "empty has no x, but cat_0, cat_1: name the observations x, or give one of these files"
    assert several in refused("features", finished, tmp_path / "empty")
    assert not (tmp_path / "f.npz").exists()

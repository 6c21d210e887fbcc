"""`niso predict`: classes of pictures and arrays, in an .npz file."""

import shutil
import sys

import numpy as np
import pytest
from PIL import Image

import niso as library
from niso.cli.predict import _compared


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Dark and bright pictures in folders of classes."""
    folder, generator = tmp_path_factory.mktemp("classes"), np.random.default_rng(0)
    for name, least in (("dark", 0), ("bright", 180)):
        (folder / name).mkdir()
        for number in range(12):
            pixels = generator.integers(least, least + 75, size=(8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:02}.png")
    return folder


@pytest.fixture(scope="module")
def model(pictures, tmp_path_factory):
    files = sorted(pictures.glob("*/*.png"))
    x = np.stack([np.array(Image.open(file)).transpose(2, 0, 1) for file in files])
    few = {"steps": 3, "rank": 4, "batch_size": 4, "latent_channels": 4, "evaluation_pairs": 8, "progress": False}
    label = np.array([file.parent.name for file in files])
    fitted = library.fit(x, transform="rotation", label=label, head={"steps": 60}, **few)
    return fitted.save(tmp_path_factory.mktemp("model") / "model")


def test_pictures_are_classified(niso, model, pictures, tmp_path):
    out = tmp_path / "predicted.npz"
    done = niso("predict", model, pictures, "-o", out)
    assert done.status == 0 and done.err == ""
    fitted = library.load(model)
    observed = fitted.read(pictures)
    with np.load(out) as written:
        assert written["classes"].tolist() == ["bright", "dark"]
        np.testing.assert_array_equal(written["probabilities"], fitted.probabilities(observed.values))
        np.testing.assert_array_equal(written["predicted"], fitted.predict(observed.values))
        assert written["names"].tolist() == list(observed.names)
        right = (written["predicted"] == written["label"]).mean()
    assert right > 0.8
    assert done.out.startswith("bright/00.png: bright (") and "… and 4 more\n" in done.out
    assert (
        f"{right:.1%} are of the class that DATA gives; 50.0% have the most frequent one\n24 observations in {out}"
        in done.out
    )


@pytest.mark.skipif(sys.platform == "win32", reason="file names there hold no line breaks")
def test_a_name_with_a_line_break_is_one_line(niso, model, model_pictures, tmp_path):
    (tmp_path / "in").mkdir()
    shutil.copy(model_pictures / "a.png", tmp_path / "in" / "two\nlines.png")
    done = niso("predict", model, tmp_path / "in", "-o", tmp_path / "p.npz")
    assert done.status == 0 and done.out.startswith("two lines.png: ") and len(done.out.splitlines()) == 2


def test_arrays_without_labels_are_classified(niso, model, tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 3, 8, 8), 200, np.uint8))
    done = niso("predict", model, tmp_path / "x.npy", "-o", tmp_path / "p.npz")
    assert done.status == 0 and done.out.startswith("0: ") and "DATA gives" not in done.out
    with np.load(tmp_path / "p.npz") as written:
        assert not {"names", "label"} & set(written)


def test_wrong_calls(refused, model, model_folder, model_pictures, tmp_path):
    assert "has no classifier: train on observations with labels" in refused("predict", model_folder, model_pictures)
    assert "--out must name an .npz file" in refused("predict", model, model_pictures, "-o", "p.csv")
    np.savez(tmp_path / "mine.npz", x=np.ones(3))
    said = refused("predict", model, model_pictures, "-o", tmp_path / "mine.npz")
    assert "is there, and is no file of this command" in said


def test_labels_may_be_whole_floats_or_missing(niso, tmp_path):
    x = np.repeat(np.array([20, 220], np.uint8), 15)[:, None, None, None] + np.zeros((30, 3, 8, 8), np.uint8)
    x[:, :, ::2] += 5
    label = np.repeat([0.0, 1.0], 15)
    few = {"steps": 3, "rank": 4, "batch_size": 4, "latent_channels": 4, "evaluation_pairs": 8, "progress": False}
    fitted = library.fit(
        x + np.arange(30, dtype=np.uint8)[:, None, None, None] % 9,
        transform="rotation",
        label=label,
        head={"steps": 20},
        **few,
    )
    folder = fitted.save(tmp_path / "model")
    np.savez(tmp_path / "x.npz", x=x, label=fitted.predict(x).astype(float))
    assert "100.0% are of the class" in niso("predict", folder, tmp_path / "x.npz", "-o", tmp_path / "p.npz").out
    np.savez(tmp_path / "x.npz", x=x, label=fitted.predict(x).astype(str))  # as names of folders are
    assert "100.0% are of the class" in niso("predict", folder, tmp_path / "x.npz", "-o", tmp_path / "p.npz").out
    np.savez(tmp_path / "x.npz", x=x, label=np.where(fitted.predict(x), 1.0, np.nan))
    said = niso("predict", folder, tmp_path / "x.npz", "-o", tmp_path / "p.npz").out
    known = fitted.predict(x).sum()
    words = f"100.0% of the {known} with a label are of the class that DATA gives; 100.0% have the most frequent one\n"
    assert words in said


@pytest.mark.parametrize(
    ("classes", "labels", "said"),
    [
        ((False, True), [0, 1, 0, 1], "75.0% are of the class that DATA gives; 50.0% have the most frequent one"),
        (
            (0, 1),
            [False, True, False, True],
            "75.0% are of the class that DATA gives; 50.0% have the most frequent one",
        ),
        (
            ("a", "b"),
            ["a", "", "a", "b"],
            "66.7% of the 3 with a label are of the class that DATA gives; 66.7% have the most frequent one",
        ),
        (
            ("a", "b"),
            ["a", "c", "", "b"],
            "DATA has labels that the model does not know: c; it knows a, b\n"
            "100.0% of the 2 with a label that the model knows are of the class that DATA gives; 50.0% have the most "
            "frequent one",
        ),
        (
            (0, 1),
            ["zero", "one", "zero", "one"],
            "DATA has labels that the model does not know: one, zero; it knows 0, 1",
        ),
        (
            ("0", "False", "True"),
            ["False", "False", "0", "0"],
            "25.0% are of the class that DATA gives; 50.0% have the most frequent one",
        ),
        ((0, 1), ["0.0", "1.0", "0.0", "1.0"], "DATA has labels that the model does not know: 0.0, 1.0; it knows 0, 1"),
        ((0, 1), [np.nan] * 4, "no observation of DATA has a label"),
        (
            ("nan", "None"),  # folders of classes
            ["nan", "nan", "None", ""],
            "66.7% of the 3 with a label are of the class that DATA gives; 66.7% have the most frequent one",
        ),
    ],
)
def test_labels_are_compared_as_far_as_the_model_knows_them(classes, labels, said):
    predicted = [classes[number] for number in (0, 1, 1, 1)]
    assert _compared(np.array(labels).tolist(), predicted, classes) == said


def test_labels_in_bytes_are_written_as_words(niso, model, tmp_path):
    x = np.repeat(np.array([20, 220], np.uint8), 2)[:, None, None, None] + np.zeros((4, 3, 8, 8), np.uint8)
    np.savez(tmp_path / "x.npz", x=x, label=np.array([b"dark", b"dark", b"bright", b"gr\xc3\xbcn"]))
    said = niso("predict", model, tmp_path / "x.npz", "-o", tmp_path / "p.npz").out
    assert "DATA has labels that the model does not know: grün; it knows bright, dark\n100.0% of the 3" in said
    with np.load(tmp_path / "p.npz") as written:
        assert written["label"].tolist() == ["dark", "dark", "bright", "grün"]
        assert (written["label"] == written["predicted"]).sum() == 3

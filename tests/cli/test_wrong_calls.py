"""Wrong calls as a new user makes them: one line, exit status 2, nothing written."""

import shutil
import warnings
from pathlib import Path

import pytest
from PIL import Image

from niso.training.run import Run

WRONG = {
    "help nonsense": "unknown command 'nonsense'",
    "nonsense --help": "unknown command 'nonsense'",
    "report nowhere": "nowhere is not a run folder: there is no such folder",
    **{
        f"{command} digits": "digits is a model that comes with niso, not a run: `niso models digits` says what it can"
        for command in ("evaluate", "record", "report", "resume")
    },
    "report RUN/weights.safetensors": "is a file of the run RUN: give that folder",
    "report RUN/config.yaml": "is a file of the run RUN: give that folder",
    "report RUN/metrics.json": "is a file of the run RUN: give that folder",
    "report binary": "cannot read record binary, which must be JSON (it is not text): give a run folder",
    "report empty.txt": "cannot read record empty.txt, which must be JSON",
    "report RUN --out x.html": "--out has no effect, leave it out: the report of one run is RUN/report.html",
    "report RUN RUN --out folder": "--out folder is a folder: give the name of a file",
    "report RUN RUN --out x.yaml": "--out x.yaml: a comparison is a web page, name it *.html",
    "report RUN RUN --out empty.txt/x.html": "is in empty.txt, which is a file, not a folder",
    "record RUN --to empty.txt": "--to empty.txt is a file, not a folder: choose another --to",
    "record RUN --to empty.txt/x": "--to empty.txt/x is in empty.txt, which is a file",
    "record RUN UNDONE": "UNDONE is not finished: `niso resume UNDONE` first",
    "resume RUN/weights.safetensors": "is not a run folder: it is a file",
    "resume RUN --job a=b": "--job has no effect, leave it out: RUN is not a folder of several runs",
    "resume RUN --parallel 2": "--parallel has no effect, leave it out: RUN is not a folder of several runs",
    "evaluate nowhere": "nowhere is not a run folder: there is no such folder",
    "evaluate UNDONE": "finish it by `niso resume UNDONE`",
    "pose nowhere --checkpoint RUN": "nowhere does not exist: give a video file",
    "pose folder --checkpoint nowhere": "nowhere is neither a run folder nor a model of niso's",
    "pose folder --checkpoint homnist-group": "homnist-group is a run of homnist: give one of `niso run pose`",
    "models nonsense": "no model 'nonsense' comes with niso",
    "pose folder --checkpoint RUN --out empty.txt": "--out empty.txt is a file, not a folder",
    "features nowhere folder": "nowhere is neither a run folder nor a model of niso's",
    "features folder images": "folder is neither a run folder nor a saved model",
    "map RUN images nowhere": "nowhere does not exist: give an array file",
    "find RUN images nowhere": "nowhere does not exist: give an array file",
    "view nowhere": "nowhere is not a run folder",
    "data shapes empty.txt": "OUT empty.txt is a file, not a folder",
    "data shapes out --originals nowhere": "--originals nowhere does not exist: give a folder of meshes",
    "data shapes out --originals empty.txt": "--originals empty.txt is not a folder",
    "data shapes out --originals folder --vertices 300": "--vertices has no effect, leave it out: the meshes of",
    "data shapes out --per-class 0": "per_class must be positive, got 0",
    "data prepare shapes folder empty.txt": "OUT empty.txt is a file, not a folder",
    "data prepare shapes folder out --workers 0": "workers must be positive, got 0",
    "data prepare co3d folder out --split-file x --quality 0.5": "--quality has no effect, leave it out: --split-file",
    "data prepare video folder out --test a --held-out 0.5": "--held-out has no effect, leave it out: --test names",
    "run homnist --digits mnist --data-dir empty.txt": "data folder empty.txt is not a folder",
    "run homnist --action turn": "--action turn does not fit images (1, 24, 24): it acts on volumes; choose another",
    "run homnist --conv.channels 3 x": "--conv.channels must be whole numbers",
    "run torus --data-dir nowhere": "data folder nowhere does not exist",
    "run torus --seeds 2 --data-dir nowhere": "data folder nowhere does not exist",
    "run torus --config empty.txt": "empty.txt must hold a mapping of settings, it is empty",
    "run torus --data-dir images --size 1000": "not enough memory for this: take smaller networks, grids or batches",
    "run shapes --data-dir empty.txt": "empty.txt holds no prepared shapes: it is a file",
    "run shapes --rank 100000": "latent points; give --rank 128 or less, or larger --preparation.height and",
    "run pose --size 32": "16: frames of 32×32 give 4×4 latent points; give --rank 16 or less, or a larger --size",
    "run pose --size 65": "image_size must be a height and a width divisible by 8",
}


@pytest.fixture(scope="module")
def place(finished_once: Path, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, finished and not, and with things that no command can use."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(finished_once, folder / "RUN")
    shutil.copytree(finished_once, folder / "UNDONE")
    (folder / "UNDONE" / "metrics.json").unlink()
    config = folder / "UNDONE" / "config.yaml"
    config.write_text(config.read_text().replace("steps: 3\n", "steps: 6\n"))
    shutil.copytree(images, folder / "images")
    (folder / "folder").mkdir()
    (folder / "empty.txt").touch()
    (folder / "binary").write_bytes(bytes(range(256)))
    return folder


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_of_a_new_user(refused, place, monkeypatch, call):
    monkeypatch.chdir(place)
    before = sorted(path for path in place.rglob("*") if path.name != ".lock")
    assert WRONG[call] in refused(*call.split())
    assert sorted(path for path in place.rglob("*") if path.name != ".lock") == before


def test_a_report_of_an_unfinished_run_says_how_it_goes_on(niso, unfinished):
    result = niso("report", unfinished)
    assert result.status == 0 and f"pretrain stands at step 3 of 6; `niso resume {unfinished}` goes on" in result.err
    assert Run(unfinished).standing in result.err
    assert f"niso resume {unfinished}" in (unfinished / "report.html").read_text()
    shutil.rmtree(unfinished / "checkpoints")  # as of a run that was killed before the first
    assert f"pretrain stands at step 0 of 6; `niso resume {unfinished}` goes on" in niso("report", unfinished).err


def test_evaluation_of_several_runs(niso, refused, small, tmp_path):
    out = tmp_path / "sweep"
    assert niso("run", "torus", *small, "--seeds", 2, "--out", out).status == 0
    before = [Run(out / f"seed{seed}").metrics for seed in (0, 1)]
    (out / "seed0" / "report.html").unlink()
    result = niso("evaluate", out)
    assert result.status == 0 and "seeds 0, 1" in result.out and (out / "seed0" / "report.html").exists()
    assert [Run(out / f"seed{seed}").metrics for seed in (0, 1)] == before
    (out / "seed1" / "metrics.json").unlink()
    assert f"`niso resume {out}` goes on" in refused("evaluate", out)


def test_both_times_are_kept(finished):
    metrics, facts = Run(finished).metrics, Run(finished).facts
    assert metrics["seconds_wall"] > metrics["seconds"] > 0
    assert facts["seconds_wall"] == metrics["seconds_wall"]


def test_one_damaged_picture_of_many_is_left_out(niso, refused, tiny, tmp_path, images):
    data = tmp_path / "data"
    data.mkdir()
    picture = Image.open(images / "0.png")
    for number in range(100):
        picture.putpixel((0, 0), (number, 0, 0))
        picture.save(data / f"{number:03}.png")
    (data / "050.png").write_bytes((images / "0.png").read_bytes()[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = niso("run", "torus", *tiny, "--data-dir", data, "--out", tmp_path / "run")
    assert result.status == 0, result.err
    warned = [line for line in result.err.splitlines() if "warning" in line]
    assert len(warned) == 1 and warned[0].startswith("niso: warning: 1 image is left out: image ")
    (data / "051.png").write_bytes(b"")
    line = refused("run", "torus", *tiny, "--data-dir", data, "--out", tmp_path / "other")
    assert "050.png cannot be read" in line and "more than 1% of the 100 images are like this" in line


def test_of_pictures_that_are_left_out_the_split_stays(tmp_path):
    from niso.data.photographs import photographs

    for number in range(300):
        Image.new("RGB", (8, 8), (*divmod(number, 256), 0)).save(tmp_path / f"{number:03}.png")
    train, test = (sorted(image.info["path"] for image in part) for part in photographs(tmp_path))
    for name in ("004", "100"):
        (tmp_path / f"{name}.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="2 of 300 images are left out"):
        again = photographs(tmp_path)
    kept = [sorted(image.info["path"] for image in part) for part in again]
    assert kept == [[path for path in part if path[-7:-4] not in ("004", "100")] for part in (train, test)]


def test_the_cache_is_named_with_its_size(tmp_path, capsys):
    from niso.training.progress import preparing

    with preparing(tmp_path, "shapes") as show:
        assert capsys.readouterr().err == ""
        show("make", 0, 2)
        assert f"is prepared once, in {tmp_path}" in capsys.readouterr().err
        (tmp_path / "shape").write_bytes(bytes(2_000))
        for part in ("make", "prepare"):
            show(part, 2, 2)
    told = capsys.readouterr().err
    assert "make 2/2" in told and "prepare 2/2" in told and f"{tmp_path} now holds 2.0 kB" in told
    with preparing(tmp_path, "shapes"):
        pass
    assert capsys.readouterr().err == ""

"""Comparisons of run folders and records: the methods' table with published figures, curves, pictures side by side."""

import json
import re
from pathlib import Path

import pytest
import yaml
from matplotlib.figure import Figure

from niso.errors import InputError
from niso.report import Picture, comparison_table, comparison_text, find_measured, save_pictures, write_comparison
from niso.results import Known, Published

KNOWN = Known(
    ("quick", "paper"),
    ("niso", "nft"),
    {"accuracy": "share of correct images"},
    (
        Published("the same", {"accuracy": "0.92 ± 0.01"}, "a paper", "niso"),
        Published("hand-crafted <net>", {"accuracy": "0.98", "unmeasured": "1"}, "another"),
    ),
)


def ask(experiment):
    return KNOWN if experiment == "homnist" else Known()


def curve(y, x=(1.0, 2.0)):
    return {"by": {"x": list(x), "y": list(y), "count": [5] * len(x), "x_label": "pixels", "y_label": "share"}}


def record(folder, seed=0, method="niso", preset="quick", experiment="homnist", settings=None, curves=None, **metrics):
    folder.mkdir(parents=True, exist_ok=True)
    content = {"experiment": experiment, "preset": preset, "method": method, "seed": seed, "metrics": metrics}
    content |= {"facts": {}, "settings": settings or {}, "curves": curves or {}}
    path = folder / f"{preset}-{method}-{seed}.json"
    path.write_text(json.dumps(content))
    return path


def run(path, seed=0, method="niso", curves=None, pictures=(), settings=None, **metrics):
    path.mkdir(parents=True)
    facts = {"experiment": "homnist", "preset": "quick", "method": method, "seed": seed}
    (path / "config.yaml").write_text(yaml.safe_dump({**facts, **(settings or {})}))
    (path / "run.json").write_text(json.dumps(facts))
    (path / "curves.json").write_text(json.dumps(curves or {}))
    if metrics:
        (path / "metrics.json").write_text(json.dumps(metrics))
    if pictures:
        save_pictures([Picture(name, caption, Figure((1, 1))) for name, caption in pictures], path / "figures")
    return path


def words(paths, out, known=ask):
    text = re.sub(r"<style>.*?</style>|data:[^\"]*", "", write_comparison(paths, out, known).read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_records_and_folders_together_beside_published_figures(tmp_path):
    paths = [record(tmp_path / "results", seed, accuracy=a) for seed, a in enumerate((0.8, 0.9))]
    paths += [run(tmp_path / "run", 2, accuracy=1.0), record(tmp_path / "results", 0, "nft", accuracy=0.4)]
    (row,) = (row for row in comparison_table(paths) if row["method"] == "niso")
    assert (row["seeds"], row["mean"]) == ([0, 1, 2], pytest.approx(0.9))
    page = words(paths, tmp_path / "c.html")
    assert "quick niso 3 0.900 ± 0.058 worst 0.8000 (seed 0) 0.92 ± 0.01 quick nft 1 0.4000 —" in page
    assert "published, not measured here hand-crafted &lt;net&gt; — — 0.98" in page
    assert "Sources: the same — a paper; hand-crafted &lt;net&gt; — another." in page
    assert "accuracy share of correct images" in page
    assert "unmeasured" not in page
    lines = comparison_text(paths, ask).splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["quick", "niso"], ["quick", "nft"]]
    assert "0.900 ± 0.058  (0.92 ± 0.01)" in lines[2]
    assert lines[-1] == "(…) published, not measured here"


def test_rows_are_in_the_order_of_presets_and_methods(tmp_path):
    kinds = [("paper", "nft"), ("own", "niso"), ("paper", "niso"), ("quick", "nft"), ("quick", "niso")]
    paths = [record(tmp_path, 0, method, preset, accuracy=0.5) for preset, method in kinds]
    lines = comparison_text(paths, ask).splitlines()[2:-2]
    order = [("quick", "niso"), ("quick", "nft"), ("paper", "niso"), ("paper", "nft"), ("own", "niso")]
    assert [tuple(line.split()[:2]) for line in lines] == order


def test_one_method_is_a_line_for_each_figure(tmp_path):
    paths = [record(tmp_path, seed, accuracy=a, steps=10) for seed, a in enumerate((0.8, 0.9))]
    assert comparison_text(paths, ask).splitlines() == [
        "quick · niso, seeds 0, 1",
        "accuracy  0.850 ± 0.050  (published: 0.92 ± 0.01)",
        "steps     10 ± 0",
    ]


def test_a_narrow_terminal_shows_what_fits(tmp_path):
    paths = [record(tmp_path, 0, method, accuracy=0.5, second_figure=1, third=2) for method in ("niso", "nft")]
    text = comparison_text(paths, ask, width=60)
    assert all(len(line) <= 60 for line in text.splitlines()) and "third" not in text
    assert text.endswith("3 more columns are in the report")


def test_without_anything_known_there_is_only_what_was_measured(tmp_path):
    path = record(tmp_path, experiment="of tomorrow", accuracy=0.5)
    assert "published" not in words([path], tmp_path / "c.html")


def test_folders_of_records_are_variants(tmp_path):
    paths = [record(tmp_path / name, 0, accuracy=a) for name, a in (("default", 0.5), ("ablation", 0.6))]
    assert [row["preset"] for row in comparison_table(paths)] == ["default", "ablation"]


def test_what_a_path_names(tmp_path):
    runs = [run(tmp_path / "sweep" / f"seed{seed}", seed, accuracy=1) for seed in (2, 10, 9)]
    assert find_measured(tmp_path / "sweep") == [runs[0], runs[2], runs[1]]
    assert find_measured(runs[0]) == [runs[0]]
    file = record(tmp_path / "results", accuracy=1)
    assert find_measured(tmp_path / "results") == find_measured(file) == [file]
    (tmp_path / "empty").mkdir()
    for name, said in (("empty", "it has no config.yaml"), ("nowhere", "there is no such folder")):
        with pytest.raises(InputError, match=f"{name} is not a run folder: {said}"):
            find_measured(tmp_path / name)


def test_settings_that_differ_are_named_across_ages(tmp_path):
    a = {"data_dir": "elsewhere/mnist", "hardware": {"threads": 1}, "config": {"rank": 8}}
    b = {"data_dir": "mnist", "hardware": {"threads": 2}, "config": {"rank": 8, "newer": False, "newest": True}}
    paths = [run(tmp_path / "run", 0, settings=a, accuracy=1.0), record(tmp_path, 1, settings=b, accuracy=1.0)]
    assert "these runs differ in more than the seed: config.newest." in words(paths, tmp_path / "c.html")


def test_curves_of_all_runs_are_in_one_picture(tmp_path, monkeypatch):
    from niso import figures

    drawn, draw = [], figures.bands
    monkeypatch.setattr(
        figures, "bands", lambda curves, *labels: drawn.append((curves, labels)) or draw(curves, *labels)
    )
    paths = [run(tmp_path / str(seed), seed, curves=curve(y), accuracy=1.0) for seed, y in enumerate(((1, 0), (0, 0)))]
    paths.append(record(tmp_path / "r", 0, "nft", curves=curve((0.25, 0.5)), accuracy=1.0))
    paths.append(record(tmp_path / "r", 1, "nft", curves=curve((0.25, 0.5, 1), (1, 2, 3)), accuracy=1.0))
    paths.append(run(tmp_path / "unfinished", 5, curves=curve((9, 9))))
    page = words(paths, tmp_path / "c.html")
    ((bands, labels),) = drawn
    assert labels == ("pixels", "share")
    assert [band.label for band in bands] == ["niso (2 seeds)", "nft (seed 0)", "nft (seed 1)"]
    assert bands[0].y.tolist() == [0.5, 0.0] and bands[0].error.tolist() == [0.5, 0.0]
    assert bands[1].error is None
    assert [band.colour for band in bands] == [0, 1, 1]
    assert "Picture 1. By. A line is the mean over the seeds of a method, its band the standard error." in page


@pytest.mark.parametrize(
    "bad", [{"by": {"x": [1], "y": []}}, {"by": {"x": [1]}}, {"by": 3}, [1], {"by": {"x": "a", "y": "b"}}]
)
def test_damaged_curves_are_named(tmp_path, bad):
    path = record(tmp_path, curves=bad, accuracy=1.0)
    with pytest.raises(InputError, match=rf"curves of .*{path.name} are damaged"):
        comparison_table([path])
    path.write_text(path.read_text().replace('"metrics": {', '"metrics": [{').replace('}, "facts"', '}], "facts"'))
    with pytest.raises(InputError, match="its metrics are not an object"):
        comparison_table([path])


def test_pictures_of_the_same_name_stand_side_by_side(tmp_path):
    maps = {"niso": "|τ_Ω|", "nft": "|V| after the diagonalisation"}
    paths = []
    for method, caption in maps.items():
        for seed in (0, 1):
            shown = [("accuracy", "for all"), ("maps", caption)] + [("mass", "alone")] * (method == "niso")
            paths.append(run(tmp_path / method / f"seed{seed}", seed, method, pictures=shown, accuracy=0.5))
    page = words([*paths, record(tmp_path, 2, accuracy=0.5)], tmp_path / "c.html")
    assert "maps Picture 3. quick · niso · seed 0. |τ_Ω| Picture 4. quick · nft · seed 0. |V| after" in page
    assert page.count("for all") == 1 and "alone" not in page
    (tmp_path / "nft" / "seed0" / "figures" / "maps.png").write_bytes(b"damaged")
    assert "Picture 4 of nft/seed0 is missing or damaged: maps.png" in words(paths, tmp_path / "c.html")
    seeds = words(paths[:2], tmp_path / "c.html")
    assert "from every seed" in seeds and "quick · niso · seed 1." in seeds


def test_the_command_compares_records(niso, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        record(tmp_path / "results", seed, accuracy=0.5, equivariance_error=0.1)
    status, out, _ = niso("report", "results")
    assert status == 0 and "published: 0.9252 ± 0.0091" in out and out.endswith("report: comparison.html\n")
    assert "LieDecomp (hand-crafted)" in Path("comparison.html").read_text()
    assert niso("report", *Path("results").glob("*.json"), "--out", "c.html").status == 0 and Path("c.html").is_file()
    (tmp_path / "results" / "broken.json").write_text("{")
    assert "cannot read record results/broken.json" in refused("report", "results")

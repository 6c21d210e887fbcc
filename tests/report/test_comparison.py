"""Comparisons of run folders and records: the methods' table with published figures, curves, pictures side by side."""

import json
import re
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
import yaml
from matplotlib.figure import Figure

from niso.errors import InputError
from niso.report import Picture, comparison_text, save_pictures, sections, write_comparison
from niso.report.methods import QUOTED
from niso.report.pictures import as_png
from niso.results import Known, Metric, Published
from niso.training.run import Run

KNOWN = Known(
    ("quick", "paper"),
    ("niso", "nft"),
    (
        Metric("accuracy", "share of correct images", "higher"),
        Metric("relative_map_error", "error of another's map", "lower"),
        Metric("equivariance_error", "error of its own map", "lower"),
        Metric("seconds", "time of training", unit="s"),
    ),
    (
        Published("the same", {"accuracy": "0.92 ± 0.01"}, "a paper", "niso"),
        Published("hand-crafted <net>", {"accuracy": "0.98", "unmeasured": "1"}, "another"),
    ),
)


def ask(experiment):
    return KNOWN if experiment == "homnist" else Known()


def curve(y, x=(1.0, 2.0)):
    return {"by": {"x": list(x), "y": list(y), "count": [5] * len(x), "x_label": "pixels", "y_label": "share"}}


def record(
    folder,
    seed=0,
    method="niso",
    preset="quick",
    experiment="homnist",
    settings=None,
    curves=None,
    commit=None,
    **metrics,
):
    folder.mkdir(parents=True, exist_ok=True)
    content = {"experiment": experiment, "preset": preset, "method": method, "seed": seed, "metrics": metrics}
    content |= {"facts": {"commit": commit}, "settings": settings or {}, "curves": curves or {}}
    path = folder / f"{preset}-{method}-{seed}.json"
    path.write_text(json.dumps(content))
    return Run.read(path)


def run(path, seed=0, method="niso", curves=None, pictures=(), settings=None, **metrics):
    path.mkdir(parents=True)
    facts = {"experiment": "homnist", "preset": "quick", "method": method, "seed": seed}
    (path / "config.yaml").write_text(yaml.safe_dump({**facts, **(settings or {})}))
    (path / "run.json").write_text(json.dumps(facts))
    (path / "curves.json").write_text(json.dumps(curves or {}))
    if metrics:
        (path / "metrics.json").write_text(json.dumps(metrics))
    if pictures:
        save_pictures([Picture(name, caption, of_its_own(path)) for name, caption in pictures], path / "figures")
    return Run.open(path)


def of_its_own(path):
    """A picture that no other folder has."""
    return Figure((1, 1), facecolor=f"#{crc32(path.as_posix().encode()):08x}"[:7])


def words(runs, out, known=ask):
    page = write_comparison(sections(runs, known), out).read_text()
    text = re.sub(r"<style>.*?</style>|data:[^\"]*", "", page, flags=re.S)
    text = re.sub(r'<span class="whole">(.*?)</span>', r"\1", text)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_differences_of_the_same_seeds(tmp_path):
    paths = [record(tmp_path / "results", seed, accuracy=a) for seed, a in enumerate((0.5, 0.8, 0.9))]
    paths += [record(tmp_path / "results", seed, "nft", accuracy=a) for seed, a in enumerate((0.4, 0.6))]
    paths.append(record(tmp_path / "results", 0, "ablation", accuracy=0.1))  # of one seed: nothing to compare
    page = words(paths, tmp_path / "c.html")
    assert "Differences, seed by seed" in page and "quick · ablation quick" not in page
    # −0.1 and −0.2; seed 2 has no counterpart
    assert "quick · nft quick · niso -0.150 ± 0.050 2 seeds" in page
    alone = words([record(tmp_path / "other", 0, accuracy=0.5), *paths[-1:]], tmp_path / "d.html")
    assert "seed by seed" not in alone


def test_records_and_folders_together_beside_published_figures(tmp_path, comparison_table):
    paths = [record(tmp_path / "results", seed, accuracy=a) for seed, a in enumerate((0.8, 0.9))]
    paths += [run(tmp_path / "run", 2, accuracy=1.0), record(tmp_path / "results", 0, "nft", accuracy=0.4)]
    (row,) = (row for row in comparison_table(paths, ask) if row["method"] == "niso")
    assert (row["seeds"], row["mean"]) == ([0, 1, 2], pytest.approx(0.9))
    page = words(paths, tmp_path / "c.html")
    assert "quick niso 3 0.900 ± 0.058 worst 0.8000 (seed 0) quick nft 1 0.4000 Published by others, on the" in page
    assert "published the same — 0.92 ± 0.01 published hand-crafted &lt;net&gt; — 0.98" in page
    assert "Sources: the same — a paper; hand-crafted &lt;net&gt; — another." in page
    assert "accuracy share of correct images" in page
    assert "unmeasured" not in page
    lines = comparison_text(sections(paths, ask)).splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["quick", "niso"], ["quick", "nft"]]
    assert "0.900 ± 0.058" in lines[2] and "0.92" not in lines[2] + lines[3]
    assert lines[4].split() == ["(published)", "the", "same", "—", "0.92", "±", "0.01"]
    assert "no comparison" in lines[-1]


def test_rows_are_in_the_order_of_presets_and_methods(tmp_path):
    kinds = [("paper", "nft"), ("own", "niso"), ("paper", "niso"), ("quick", "nft"), ("quick", "niso")]
    paths = [record(tmp_path, 0, method, preset, accuracy=0.5) for preset, method in kinds]
    lines = comparison_text(sections(paths, ask)).splitlines()[2:-3]
    order = [("quick", "niso"), ("quick", "nft"), ("paper", "niso"), ("paper", "nft"), ("own", "niso")]
    assert [tuple(line.split()[:2]) for line in lines] == order


def test_one_method_is_a_line_for_each_figure(tmp_path):
    paths = [record(tmp_path, seed, accuracy=a, steps=10) for seed, a in enumerate((0.8, 0.9))]
    assert comparison_text(sections(paths, ask)).splitlines() == [
        "quick · niso, seeds 0, 1",
        "accuracy  0.850 ± 0.050",
        "steps     10",
        QUOTED,
        "accuracy 0.92 ± 0.01",
    ]


def test_a_narrow_terminal_shows_what_fits(tmp_path):
    names = {"niso": 1, "nft": 2}
    paths = [record(tmp_path, 0, name, accuracy=n / 4, second_figure=n, third=n + 1) for name, n in names.items()]
    text = comparison_text(sections(paths, ask), width=60)
    assert all(len(line) <= 60 for line in text.splitlines()) and "third" not in text
    assert " ".join(text.split()).count(QUOTED) == 1
    assert text.endswith("1 more column is in the report")


def test_metrics_are_rows_where_most_of_them_do_not_fit(tmp_path):
    names = {"niso": 1, "niso-triplet": 2, "nft": 3, "nft-triplet": 4}
    figures = ("accuracy", "second_figure", "third", "fourth", "fifth_of_them", "sixth_of_them", "seventh")
    paths = [
        record(tmp_path, 0, name, **{key: n + place / 10 for place, key in enumerate(figures)}, rank=8, seconds=n)
        for name, n in names.items()
    ]
    text = comparison_text(sections(paths, ask), width=50)
    assert text.splitlines()[:12] == [
        "preset         quick  quick  quick",
        "method         niso   nft    niso-triplet",
        "seeds          1      1      1",
        "accuracy       1      3      2",
        "second_figure  1.100  3.100  2.100",
        "third          1.200  3.200  2.200",
        "fourth         1.300  3.300  2.300",
        "fifth_of_them  1.400  3.400  2.400",
        "sixth_of_them  1.500  3.500  2.500",
        "seventh        1.600  3.600  2.600",
        "",
        "preset         quick        (published)",
    ]
    assert all(len(line) <= 50 for line in text.splitlines())
    assert text.splitlines()[-2:] == [
        "The same in every row: rank 8.",
        "In the report, too: validation, cost and sizes",
    ]
    assert "more column" not in text
    assert "fifth_of_them" in comparison_text(sections(paths, ask), width=26)  # one below the other


def test_tables_of_several_experiments_have_their_names(tmp_path):
    paths = [record(tmp_path, 0, accuracy=0.5), record(tmp_path / "b", 0, experiment="sphere", accuracy=0.25)]
    lines = comparison_text(sections(paths, ask)).splitlines()
    assert [lines[lines.index(name) + 1] for name in ("homnist", "sphere")] == 2 * ["quick · niso, seed 0"]


def test_lines_that_cover_each_other_and_logarithmic_axes_are_told(tmp_path):
    by = curve((1, 0.01))["by"]
    paths = [record(tmp_path, 0, m, curves={"by": {**by, "logarithmic": "y"}}, accuracy=1) for m in ("niso", "nft")]
    page = words(paths, tmp_path / "c.html")
    assert "Share against pixels. The same line: niso and nft." in page


def test_a_narrow_terminal_shows_no_published_rows_without_a_value(tmp_path):
    other = Published("of another figure", {"zeta": "1"}, "a paper")
    known = Known(metrics=KNOWN.metrics, published=(*KNOWN.published, other))
    paths = [record(tmp_path, 0, name, accuracy=n, zeta=n) for n, name in enumerate(("niso", "nft"))]
    assert "of another figure" in comparison_text(sections(paths, lambda _: known), width=80)
    assert "of another figure" not in comparison_text(sections(paths, lambda _: known), width=52)


def test_of_what_depends_on_something_a_terminal_shows_the_first(tmp_path):
    errors = [{f"ate_skip{skip}": n + skip for skip in (10, 0, 2)} for n in (0.5, 0.75)]
    paths = [record(tmp_path, n, method, **errors[n]) for n, method in enumerate(("niso", "nft"))]
    text = comparison_text(sections(paths, ask), width=60)
    assert text.splitlines()[1].split() == ["preset", "method", "seeds", "skip0"]
    assert text.endswith("In the report, too: other values of skip")


def test_metrics_that_depend_on_something_have_tables_of_their_own(tmp_path):
    skips = {"niso": (0.5, 0.25, 0.125), "nft": (0.75, 0.375, 0.0625)}
    runs = []
    for method, values in skips.items():
        errors = {f"ate_skip{skip}": value for skip, value in zip((10, 0, 2), values, strict=True)}
        trivial = {f"constant_ate_skip{skip}": skip + 1.5 for skip in (0, 2, 10)}
        sizes = {"test_images": 12, "accuracy_val": values[0], "ate_val_skip0": values[1], "seconds": values[2]}
        runs.append(record(tmp_path, 0, method, accuracy=values[0], rank=4, **errors, **trivial, **sizes))
    page = words(runs, tmp_path / "c.html")
    assert "preset method seeds accuracy quick niso 1 0.5000 quick nft 1 0.7500 Published" in page
    assert "ate at each skip preset method seeds skip 0 skip 2 skip 10 quick niso 1 0.2500 0.1250 0.5000 quick" in page
    assert "The same in every row: rank 4; test_images 12; constant_ate 1.500, 3.500, 11.50 at skip 0, 2, 10." in page
    assert page.count("constant_") == 1  # a page of single seeds does not list them
    heads = "preset method seeds seconds s accuracy_ val ate_ val_ skip0"
    assert f"Validation, cost and sizes {heads} quick niso 1 0.1250 0.5000 0.2500" in page


def test_what_differs_in_a_row_or_has_published_values_is_not_the_same_in_every_row(tmp_path):
    values = {"niso": {"a": 1, "b": 2}, "nft": {"a": 1, "b": 2.1}, "vit": {"c": 3}}
    runs = [record(tmp_path, 0, method, accuracy=0.5, **more) for method, more in values.items()]
    page = words(runs, tmp_path / "c.html")
    assert "The same in every row: a 1 (2 of 3 rows)." in page
    assert "seeds accuracy b c quick niso" in page
    assert "in every row" not in words(runs[:1], tmp_path / "d.html")
    same = [record(tmp_path / "same", 0, method, loss=1.0) for method in ("niso", "nft")]
    assert "seeds loss quick niso" in words(same, tmp_path / "e.html")  # else there would be no column


def test_every_seed_is_there_to_be_opened(tmp_path):
    runs = [record(tmp_path, seed, accuracy=0.5) for seed in (0, 1)]
    page = write_comparison(sections(runs, ask), tmp_path / "c.html").read_text()
    assert "<details><summary>Every seed" in page and "<details open" not in page


def test_without_anything_known_there_is_only_what_was_measured(tmp_path):
    path = record(tmp_path, experiment="of tomorrow", accuracy=0.5)
    assert "published" not in words([path], tmp_path / "c.html")


def test_folders_of_records_are_variants(tmp_path, comparison_table):
    paths = [record(tmp_path / name, 0, accuracy=a) for name, a in (("default", 0.5), ("ablation", 0.6))]
    assert [row["preset"] for row in comparison_table(paths)] == ["default", "ablation"]


def test_folders_of_one_name_are_told_apart(tmp_path, comparison_table):
    paths = [record(tmp_path / who / "homnist", seed, accuracy=0.5) for seed, who in enumerate(("mine", "theirs"))]
    assert [(row["preset"], row["seeds"]) for row in comparison_table(paths)] == [
        ("mine/homnist", [0]),
        ("theirs/homnist", [1]),
    ]


def test_runs_on_different_data_are_no_seeds_of_one(tmp_path, comparison_table):
    places = [str(tmp_path / animal / "images") for animal in ("cats", "dogs")]
    runs = [run(tmp_path / f"r{n}", n, settings={"data_dir": place}, accuracy=0.5) for n, place in enumerate(places)]
    assert [row["settings"] for row in comparison_table(runs)] == [
        'data = "cats/images"',
        'data = "dogs/images"',
    ]
    other = run(tmp_path / "nft", 0, "nft", settings={"data_dir": places[0]}, accuracy=0.9)
    assert [row["settings"] for row in comparison_table([other, runs[1]])] == [
        'data = "cats/images"',
        'data = "dogs/images"',
    ]
    assert [row["settings"] for row in comparison_table([other, runs[0]])] == ["", ""]
    kept = record(tmp_path, 2, settings={"data_dir": "images"}, accuracy=0.5)  # which knows no more
    assert [row["seeds"] for row in comparison_table([*runs, kept])] == [[0, 1, 2]]


def test_nothing_and_zero_differ_beside_a_run_without_the_setting(tmp_path, comparison_table):
    values = {0: {"rate": 0.0}, 1: {"rate": None}, 2: {}}
    runs = [run(tmp_path / f"r{n}", n, settings={"config": config}, accuracy=0.5) for n, config in values.items()]
    known = Known(defaults={"config": {"rate": None}})
    assert [row["seeds"] for row in comparison_table(runs, lambda _: known)] == [[0], [1, 2]]


def test_names_that_leave_out_what_differs_are_written_in_full(tmp_path, comparison_table):
    numbers = {0: [0] * 7, 1: [1] * 6 + [2], 2: [1] * 6 + [3]}
    configs = [{"config": {f"s{n}": value for n, value in enumerate(values)}} for values in numbers.values()]
    runs = [run(tmp_path / f"r{n}", n, settings=config, accuracy=0.5) for n, config in enumerate(configs)]
    assert len({row["settings"] for row in comparison_table(runs)}) == 3


def test_seeds_are_in_order_and_a_mean_of_fewer_runs_says_so(tmp_path):
    values = {2: {"other": 0.2}, 10: {}, 0: {}}
    runs = [run(tmp_path / f"r{n}", n, accuracy=0.5, **more) for n, more in values.items()]
    text = comparison_text(sections(runs, ask))
    assert "seeds 0, 2, 10" in text and "0.2000 (1 of 3)" in text


def test_a_row_is_one_configuration_and_names_the_settings_that_differ(tmp_path, comparison_table):
    rank, steps = {"config": {"rank": 8, "training": {"steps": 3}}}, {"config": {"rank": 8, "training": {"steps": 6}}}
    runs = [run(tmp_path / f"short{seed}", seed, settings=rank, accuracy=0.5) for seed in (0, 1)]
    runs += [run(tmp_path / "long0", 0, settings=steps, accuracy=0.9)]
    rows = comparison_table(runs)
    assert [(row["settings"], row["seeds"], row["mean"]) for row in rows] == [
        ("training.steps = 3", [0, 1], 0.5),
        ("training.steps = 6", [0], 0.9),
    ]
    page = words(runs, tmp_path / "c.html")
    assert "quick niso training.steps = 3 2 0.5000 ±" not in page
    assert "quick niso training.steps = 3 2 0.5000" in page and "quick niso training.steps = 6 1 0.9000" in page
    assert "niso (training.steps = 6)" in comparison_text(sections(runs, ask))
    assert [row["settings"] for row in comparison_table(runs[:2])] == [""]


def test_a_whole_number_is_one_setting_however_it_is_written(tmp_path, comparison_table):
    runs = [
        run(tmp_path / f"{seed}", seed, settings={"config": {"b": b}}, accuracy=0.5) for seed, b in enumerate([0, 0.0])
    ]
    assert [(row["settings"], row["seeds"]) for row in comparison_table(runs)] == [("", [0, 1])]


def test_a_seed_measured_twice_is_a_repetition_and_not_another_seed(tmp_path, comparison_table):
    runs = [run(tmp_path / str(n), seed, accuracy=a) for n, (seed, a) in enumerate([(0, 0.5), (1, 0.7), (0, 0.4)])]
    rows = comparison_table([*runs, runs[0]])  # one named twice is one run
    assert [(row["settings"], row["seeds"], row["values"]) for row in rows] == [
        ("", [0, 1], [0.5, 0.7]),
        ("repetition 2", [0], [0.4]),
    ]
    assert "niso repetition 2 1 0.4000" in words(runs, tmp_path / "c.html")


def test_a_seed_that_a_sweep_lacks_is_not_taken_from_another(tmp_path, comparison_table):
    before = [run(tmp_path / "before" / "seed1", 1, accuracy=0.3)]
    after = [run(tmp_path / "after" / f"seed{seed}", seed, accuracy=0.9) for seed in (0, 1)]
    rows = comparison_table(before + after)
    assert [(row["settings"], row["seeds"], row["mean"]) for row in rows] == [
        ("", [1], 0.3),
        ("repetition 2", [0, 1], 0.9),
    ]
    assert [row["seeds"] for row in comparison_table([*before, after[0]])] == [[0, 1]]  # none is repeated


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [run(tmp_path / who / f"seed{n}", n, accuracy=0.5) for who in ("mine", "theirs") for n in (0, 1)]
    assert "from mine/seed0 mine/seed1" in words(runs, tmp_path / "c.html")
    unfinished = run(tmp_path / "other" / "mine" / "seed0")
    page = words([*runs, unfinished], tmp_path / "c.html")
    assert f"from {tmp_path.name}/theirs/seed0 {tmp_path.name}/theirs/seed1" in page
    assert "not finished (no metrics.json): other/mine/seed0." in page


def test_a_run_that_was_changed_has_the_settings_it_was_trained_with(tmp_path, comparison_table):
    trained, wanted = ({"config": {"rank": rank}} for rank in (8, 4))
    one = run(tmp_path / "one", 0, settings=trained, accuracy=0.5)
    other = run(tmp_path / "other", 1, settings=trained, accuracy=0.7)
    one.write("facts", {**one.facts, "settings": one.determining})
    (one.path / "config.yaml").write_text(yaml.safe_dump({**one.settings, **wanted}))
    runs = [Run.open(one.path), other]
    assert [(row["settings"], row["seeds"]) for row in comparison_table(runs)] == [("", [0, 1])]
    assert "was changed after it was finished" in words(runs, tmp_path / "c.html")


def test_settings_that_older_records_do_not_know(tmp_path, comparison_table):
    a = {"data_dir": "elsewhere/mnist", "hardware": {"threads": 1}, "config": {"rank": 8}}
    b = {"data_dir": "mnist", "hardware": {"threads": 2}, "config": {"rank": 8, "newer": False, "parts": 1}}
    defaults = Known(defaults={"config": {"parts": 1}})
    runs = [run(tmp_path / "run", 0, settings=a, accuracy=1.0), record(tmp_path, 1, settings=b, accuracy=1.0)]
    (row,) = comparison_table(runs, lambda name: defaults)
    assert (row["settings"], row["seeds"]) == ("", [0, 1])
    rows = comparison_table(runs)  # without the default, 1 differs from what is not there
    assert [row["settings"] for row in rows] == ["parts = null", "parts = 1"]


def test_precision_is_a_setting_and_other_hardware_is_not(tmp_path, comparison_table):
    hardware = [
        {"threads": 1, "precision": "32-true"},
        {"threads": 2, "precision": "32-true"},
        {"precision": "64-true"},
    ]
    runs = [run(tmp_path / str(n), n, settings={"hardware": h}, accuracy=1.0) for n, h in enumerate(hardware)]
    assert [row["seeds"] for row in comparison_table(runs)] == [[0, 1], [2]]


def test_units_and_directions_come_from_the_metrics(tmp_path, comparison_table):
    runs = [record(tmp_path, seed, accuracy=a, seconds=a, loss=a) for seed, a in enumerate((0.8, 0.9))]
    worst = {row["metric"]: row["worst"] for row in comparison_table(runs, ask)}
    assert worst == {"accuracy": 0.8, "seconds": None, "loss": None}  # no guess from a word such as "loss"
    assert "seconds s " in words(runs, tmp_path / "c.html") and "seconds (s)" in comparison_text(sections(runs, ask))


def test_the_error_of_anothers_map_comes_first_and_the_other_is_explained(tmp_path):
    runs = [record(tmp_path, equivariance_error=0.1, relative_map_error=0.2)]
    page = words(runs, tmp_path / "c.html")
    assert "relative_ map_ error equivariance_ error" in page
    assert "equivariance_error fits the map τ to the very pair that it scores" in page
    assert "fits the map" not in words([record(tmp_path, 1, accuracy=1.0)], tmp_path / "c.html")


def test_curves_of_all_runs_are_in_one_picture(tmp_path, monkeypatch):
    from niso import figures

    drawn, draw = [], figures.bands
    monkeypatch.setattr(
        figures,
        "bands",
        lambda curves, *labels, **more: drawn.append((curves, labels)) or draw(curves, *labels, **more),
    )
    paths = [run(tmp_path / str(seed), seed, curves=curve(y), accuracy=1.0) for seed, y in enumerate(((1, 0), (0, 0)))]
    paths.append(record(tmp_path / "r", 0, "nft", curves=curve((0.25, 0.5)), accuracy=1.0))
    paths.append(record(tmp_path / "r", 1, "nft", curves=curve((0.25, 0.5, 1), (1, 2, 3)), accuracy=1.0))
    paths.append(run(tmp_path / "unfinished", 5, curves=curve((9, 9))))
    page = words(paths, tmp_path / "c.html")
    ((bands, labels),) = drawn
    assert labels == ("pixels", "share")
    assert [band.label for band in bands] == ["niso (2 seeds)", "nft · seed 0", "nft · seed 1"]
    assert bands[0].y.tolist() == [0.5, 0.0] and bands[0].error.tolist() == [0.5, 0.0]
    assert bands[1].error is None
    assert [band.colour for band in bands] == [0, 1, 1]
    assert "Figure 1. Share against pixels. Each line is the mean over its seeds, its band the standard error." in page


def test_a_method_has_one_colour_in_all_figures_of_an_experiment(tmp_path, monkeypatch):
    from niso import figures

    seen, draw = [], figures.bands
    monkeypatch.setattr(
        figures, "bands", lambda curves, *labels, **more: seen.append(curves) or draw(curves, *labels, **more)
    )
    others = {"angles": {"x": [1, 2], "y": [3, 4], "x_label": "share", "y_label": "τ"}, "by_b": curve((1, 1))["by"]}
    runs = [
        run(tmp_path / method, 0, method, curves=curve((1, 0)) | (others if method == "nft" else {}), accuracy=1.0)
        for method in ("niso", "nft")
    ]
    page = words(runs, tmp_path / "c.html")
    assert [[(band.label, band.colour) for band in bands] for bands in seen] == [
        [("niso", 0), ("nft", 1)],
        [("nft", 1)],
        [("nft", 1)],
    ]
    assert "Figure 1. Share against pixels (by). The same line: niso and nft. Figure 2. τ against share. Fig" in page
    assert "Figure 3. Share against pixels (by b)." in page
    seen.clear()
    presets = [record(tmp_path, 0, "niso", preset, curves=curve((1, 0))) for preset in ("quick", "paper")]
    own = record(tmp_path, 0, "niso", "own", curves={"angles": others["angles"]})
    write_comparison(sections([*presets, own], ask), tmp_path / "c.html")
    assert [[band.colour for band in bands] for bands in seen] == [[0, 1], [2]]


@pytest.mark.parametrize(
    "bad", [{"by": {"x": [1], "y": []}}, {"by": {"x": [1]}}, {"by": 3}, [1], {"by": {"x": "a", "y": "b"}}]
)
def test_damaged_curves_are_named(tmp_path, bad):
    damaged = record(tmp_path, curves=bad, accuracy=1.0)
    with pytest.raises(
        InputError, match=rf"curves .*{damaged.path.name} are damaged|{damaged.path.name}: curves must be"
    ):
        write_comparison(sections([damaged], ask), tmp_path / "c.html")


@pytest.mark.usefixtures("drawn")
def test_pictures_of_the_same_name_stand_side_by_side(tmp_path):
    maps = {"niso": "|τ_Ω|", "nft": "|V| after the diagonalisation"}
    paths = []
    for method, caption in maps.items():
        for seed in (0, 1):
            shown = [("accuracy", "for all"), ("maps", caption)] + [("mass", "alone")] * (method == "niso")
            paths.append(run(tmp_path / method / f"seed{seed}", seed, method, pictures=shown, accuracy=0.5))
    page = words([*paths, record(tmp_path, 2, accuracy=0.5)], tmp_path / "c.html")
    assert "maps Figure 3. quick · niso · seed 0. |τ_Ω| Figure 4. quick · nft · seed 0. |V| after" in page
    assert page.count("for all") == 1 and "alone" not in page
    (tmp_path / "nft" / "seed0" / "figures" / "maps.png").write_bytes(b"damaged")
    assert "Figure 4 is missing or damaged: quick · nft · seed 0, maps.png" in words(paths, tmp_path / "c.html")
    seeds = words(paths[:2], tmp_path / "c.html")
    assert "from every seed" in seeds and "quick · niso · seed 1." in seeds


@pytest.mark.usefixtures("drawn")
def test_pictures_that_curves_show_or_that_are_all_the_same_are_not_repeated(tmp_path):
    runs = []
    for method in ("niso", "nft", "vit"):
        shown = [(name, name) for name in ("data", "share", "by", "share_by_angle", "maps")]
        curves = {"share_by_angle": curve((1, 0))["by"], "angle_by_share": curve((1, 0))["by"]}
        runs.append(run(tmp_path / method, 0, method, curves=curves, pictures=shown, accuracy=0.5))
        (runs[-1].path / "figures" / "data.png").write_bytes(as_png(Figure((6, 1))))
    out = tmp_path / "c.html"
    page = words(runs, out, lambda _: replace(KNOWN, pictures_of_curves=frozenset({"share"})))
    assert "data Figure 3. The same in these 3 runs. data by" in page
    assert "Figure 7. quick · niso · seed 0. maps Figure 8. quick · nft" in page  # `by` before it, no other
    assert "Figure 10" not in page
    assert 'width="600" height="100"' in out.read_text()  # as large as it was drawn


def test_the_command_compares_records(niso, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        record(tmp_path / "results", seed, accuracy=0.5, equivariance_error=0.1)
    status, out, _ = niso("report", "results")
    assert status == 0 and "accuracy 0.9252 ± 0.0091" in out and out.endswith("report: comparison.html\n")
    assert "LieDecomp (hand-crafted)" in Path("comparison.html").read_text()
    assert niso("report", *Path("results").glob("*.json"), "--out", "c.html").status == 0 and Path("c.html").is_file()
    (tmp_path / "results" / "broken.json").write_text("{")
    assert "cannot read record results/broken.json" in refused("report", "results")


def test_networks_that_differ_are_named(tmp_path):
    """Functions that T moves need no networks for the one method, and another has some: no comparison of methods."""
    out = tmp_path / "report.html"
    runs = [record(tmp_path / "records", method=method, accuracy=0.5) for method in ("niso", "nft")]
    assert "networks differ" not in write_comparison(sections(runs, ask), out).read_text()
    for run, architecture in zip(runs, ("identity", "conv"), strict=True):
        content = json.loads(run.path.read_text())
        content["facts"]["chosen"] = {"architecture": architecture}
        run.path.write_text(json.dumps(content))
    page = write_comparison(sections([Run.read(run.path) for run in runs], ask), out).read_text()
    assert "The networks differ: identity (quick · niso); conv (quick · nft)." in page


def test_seeds_of_different_commits_are_named(tmp_path):
    """A mean over versions of the code is shown, and said to be one."""
    folder, out = tmp_path / "records", tmp_path / "report.html"
    runs = [record(folder, seed, commit="a" * 40, accuracy=0.5) for seed in (0, 1)]
    assert "different commits" not in write_comparison(sections(runs, ask), out).read_text()
    runs.append(record(folder, 2, commit="b" * 40 + "+changes", accuracy=0.5))
    page = write_comparison(sections(runs, ask), out).read_text()
    assert "different commits" in page
    assert "quick · niso: aaaaaaaa (seed 0, 1); bbbbbbbb (seed 2)." in page

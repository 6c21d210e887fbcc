import json
import math
import re
import subprocess
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure

from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.known import known as known_of
from niso.report import Picture, save_pictures, sections, write_comparison, write_report
from niso.report.html import whole
from niso.report.numbers import duration, number, verdict, with_error
from niso.results import Known, Metric, Published
from niso.training import checkpoint
from niso.training.run import Run

VOID = {"meta", "img", "source", "br", "wbr"}
HOSTILE = "<script>alert('1 & 2')</script>"


class Page(HTMLParser):
    """Parses strictly: every element that opens closes, in order."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.links, self.text, self.images, self.bare = [], [], [], [], [], 0
        self.boxes = []
        page = path.read_text(encoding="utf-8")
        self.feed(re.sub(r'<span class="whole">(.*?)</span>', r"\1", page))
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset")]
        if tag == "img":
            self.images.append(dict(attributes))
        if tag == "table":  # it scrolls in a box of its own, which the keyboard reaches
            self.bare += self.boxes[-1:] != [{"class": "scroll", "tabindex": "0", "role": "region"}]
        if tag not in VOID:
            kept = dict(attributes)
            named = bool(kept.pop("aria-label", ""))
            self.boxes.append(kept if named else {})
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.boxes.pop()

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def ask(experiment):
    return Known()


def picture(name="map", caption="a map"):
    return Picture(name, caption, Figure((2, 1)))


def make_run(
    path, seed=0, metrics=None, pictures=(), rank=64, method="niso", preset="quick", metrics_meaning=None, **facts
):
    path.mkdir()
    facts |= {} if metrics_meaning is None else {"metrics": metrics_meaning}
    settings = {"experiment": "torus", "preset": preset, "method": method, "seed": seed, "config": {"rank": rank}}
    (path / "config.yaml").write_text(yaml.safe_dump(settings))
    (path / "run.json").write_text(json.dumps(facts))
    (path / "log.csv").write_text(
        "phase,step,loss,accuracy,learning_rate,seconds\n"
        "pretrain,10,1.5,,0.1,1\npretrain,20,0.5,,0.05,2.5\nhead,10,2,0.5,0.1,1\nhead,20,1,0.6"
    )
    save_pictures(pictures, path / "figures")
    if metrics is not None:
        (path / "metrics.json").write_text(json.dumps(metrics))
    return Run.open(path)


def meaning(**metrics):
    """Metrics as run.json has them, from (text, better, unit)."""
    return {key: dict(zip(("text", "better", "unit"), values, strict=True)) for key, values in metrics.items()}


def test_numbers_that_rounding_or_a_damaged_log_left():
    assert with_error(0.3, 2.8e-17) == "0.3000" and duration(math.nan) == "nan"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lower --group-size, or (--head.steps 2)", ["--group-size", "--head.steps"]),
        ("the methods niso-group-vicreg and nft: others", ["niso-group-vicreg"]),
        ("niso resume runs/niso-group-seed0 and ../a-b/c -o my-runs/x; −0.5 -- 3-4", []),
        (HOSTILE + " --steps", ["--steps"]),
        ("data a-" + 40 * "b", []),
    ],
)
def test_options_and_names_are_not_broken(text, names):
    assert re.findall(r'<span class="whole">(.*?)</span>', whole(text)) == names
    assert whole(text).striptags() == " ".join(text.split()) and "<script" not in whole(text)


@pytest.mark.usefixtures("drawn")
def test_report_is_one_file_with_everything_in_it(tmp_path):
    run = make_run(
        tmp_path / "run",
        metrics={
            **{"eigenspace_energy": 0.96, "equivariance_error": 0.02, "seconds": 90.5, "steps": 8000},
            **{"energy_val": 0.9, "value": 3, "ate_val_skip0": 0.5},
        },
        pictures=[picture("map", "the map τ"), picture("mass", "the mass")],
        summary="What it is.\n\nAnd more.",
        metrics_meaning=meaning(eigenspace_energy=("mean energy", "higher", ""), seconds=("time", None, "s")),
        targets={"eigenspace_energy": "≥ 0.95", "equivariance_error": "<= 1 %", "steps": "few"},
        command="niso run torus --seed 0",
        hardware="a CPU",
        shapes=[f"cat {number}" for number in range(30)],
        left_out=[],
        data={"kind": "images", "shape": [3, 8], "compiled": False},
        times={"training": 200.0},
        settings={"rank": 32},
    )
    others = (
        Published("NIso", {"eigenspace_energy": "0.9", "accuracy": "92.3 %"}, "a paper", "niso"),
        Published("another", {"eigenspace_energy": "0.8"}, "a book", "nft"),
    )
    path = write_report(run, Known(published=others))
    page = Page(path)
    assert path == run.path / "report.html"
    assert "script" not in page.tags
    assert all(link.startswith("data:image/webp;base64,") for link in page.links)
    assert page.tags.count("figure") == 4  # and one for each phase of the log
    assert page.tags.count("source") == len(page.images)  # each for a dark page, too
    alts = [image["alt"] for image in page.images]
    assert alts[:2] == ["the map τ.", "the mass."] and len(set(alts)) == len(alts)
    assert not page.bare
    for text in (
        "torus · quick · niso · seed 0",
        "What it is. And more.",
        "eigenspace_ energy 0.9600 ≥ 0.95 met mean energy",
        "equivariance_ error 0.02000 <= 1 % missed",
        "steps 8,000 few",
        "value 3 —",
        "Validation, cost and sizes metric this run what it is seconds 90.50 s time energy_ val 0.9000 "
        "ate_ val_ skip0 0.5000",
        "Published by others: no comparison Published by others, on the original data at full size",
        "This run: preset quick, without --data-dir. Source: NIso — a paper. "
        "metric published what it is eigenspace_ energy 0.9 mean energy accuracy 92.3 %",
        "equivariance_error fits the map τ to the very pair that it scores",
        "Results metric this run target what it is",
        "Figures Figure 1. the map τ Figure 2. the mass",
        "Figure 3. Phase “pretrain”: 20 steps in 2.5 s",
        "Figure 4. Phase “head”: 10 steps in 1 s",  # its last line was cut off
        "niso run torus --seed 0",
        "fact value hardware a CPU shapes cat 0, cat 1, cat 2, cat 3, cat 4, cat 5, cat 6, cat 7, … (30 in all) "
        "data kind images; shape (3, 8); compiled no times training 3 min 20 s All settings",
        "rank: 64",
    ):
        assert text in page.words
    assert "http://" not in path.read_text() and "https://" not in path.read_text()


@pytest.mark.usefixtures("drawn")
def test_captions_of_training_say_what_terms_are_and_which_axes_are_logarithmic(tmp_path):
    run = make_run(tmp_path / "run", metrics={})
    (run.path / "log.csv").write_text(
        "phase,step,loss,reconstruction,equivariance,accuracy,learning_rate\n"
        "pretrain,10,100,3,50,,0.1\npretrain,20,1,2,1,,0.1\nhead,10,2,,,0.01,0.1\nhead,20,1,,,1,0.1\n"
    )
    first, second = Page(write_report(run, Known())).words.split("Phase “")[1:]
    assert first.startswith("pretrain”: 20 steps; each point")
    assert "Terms of the loss are as they are before their weights. Logarithmic axes: loss, equivariance." in first
    assert "Terms" not in second and "Logarithmic" not in second


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(("content", "damaged", "curves"), [
    ("phase,step,loss\nhead,10,1\nhead,2", False, True),
    ("phase,step,loss\nhead,10,1\n0,2\nhead,20,nan\n", True, True),
    ("phase,step,loss,accuracy\nhead,10,1.@,\n", True, True),
    ("phase,loss\nhead,10\n", True, False),
    ("\0" * 99, True, False),
    ("", False, False),
])  # fmt: skip
def test_a_damaged_log_is_named_and_the_report_made(tmp_path, capsys, content, damaged, curves):
    run = make_run(tmp_path / "run", metrics={})
    (run.path / "log.csv").write_text(content)
    words = Page(write_report(run, Known())).words
    assert (f"{run.path / 'log.csv'} is damaged, " in capsys.readouterr().err) == damaged
    assert ("log.csv is damaged, " in words, "Phase “head”" in words) == (damaged, curves)
    assert ("no log.csv to draw" in words) == (not damaged and not curves)


def test_a_lengthened_run_says_so_in_a_sentence(tmp_path):
    run = make_run(tmp_path / "run", metrics={}, changed={"training.steps": [20, 40], "head.steps": [None]})
    settings = {**run.settings, "config": {"training": {"steps": 6000}}}
    (run.path / "config.yaml").write_text(yaml.safe_dump(settings))
    words = Page(write_report(Run.open(run.path), Known())).words
    assert (
        "The length was changed in training: training.steps was 20, then 40, now 6000; head.steps was none. "
        "Learning rates, and weights, noise and eigenvalues that go by the share of steps done, are not those of a run "
        "that knew its length from the start. All settings (config.yaml)"
    ) in words
    assert "changed training" not in words  # the same as a fact
    assert "was changed" not in Page(write_report(make_run(tmp_path / "other", metrics={}), Known())).words


def test_the_box_of_published_values_names_the_folder_of_the_data(tmp_path):
    run = make_run(tmp_path / "run", metrics={"accuracy": 1.0})
    (run.path / "config.yaml").write_text(yaml.safe_dump({**run.settings, "data_dir": "elsewhere/prepared"}))
    known = Known(published=(Published("NIso", {"accuracy": "0.9"}, "a paper", "niso"),))
    assert "This run: preset quick, data: folder prepared." in Page(write_report(Run.open(run.path), known)).words


def test_wide_tables_are_made_smaller_in_print(tmp_path):
    runs = [make_run(tmp_path / f"{n}", n, {"a": n, "b": 2 * n, "c": 3}, method=f"m{n}") for n in (1, 2)]
    page = write_comparison(sections(runs, ask), tmp_path / "c.html").read_text()
    printed = page.partition("@media print")[2].partition("</style>")[0]
    assert '<table class="methods" style="--columns:5">' in page
    assert "var(--columns)" in printed and ".scroll:has(.methods) { margin-inline: 0; }" in printed


def test_a_page_says_what_was_changed_from_the_preset(tmp_path):
    preset = {"rank": 64.0, "training": {"steps": 100, "rates": (1, 2)}, "test_copies": 4, "mask": True, "near": 0.5}
    known = Known(started_from=lambda preset_name, method: preset if preset_name == "quick" else {})
    run = make_run(tmp_path / "run", metrics={"loss": 1.0})
    own = {"rank": 64, "training": {"steps": 6000, "rates": [1, 2]}, "test_copies": 1, "mask": False, "near": None}
    own |= {"weights": str(Path.cwd() / "model"), "no_longer": 0}
    settings = {**run.settings, "config": own, "data_dir": "elsewhere/prepared"}
    (run.path / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    run = Run.open(run.path)
    page = Page(write_report(run, known))
    changed = "training.steps 6000, test_copies 1, mask off, near none, weights model, data prepared."
    assert f"torus · quick · niso · seed 0 Changed from quick: {changed}" in page.words
    assert page.words.startswith("run: torus · quick · niso · seed 0 — Neural Isometries")  # of the tab
    run.write("facts", {**run.facts, "settings": {**run.determining, "config": {"rank": 8}, "data_dir": None}})
    (run.path / "config.yaml").write_text(yaml.safe_dump({**settings, "seed": 0, "config": {"rank": 4}}))
    assert "Changed from quick: rank 8." in Page(write_report(Run.open(run.path), known)).words  # as of its results
    for name in ("own preset", "quick"):
        same = make_run(tmp_path / name, preset=name, metrics={})
        assert "Changed from" not in Page(write_report(same, known)).words


def test_experiments_tell_what_a_preset_and_a_method_start_from():
    kind, told = EXPERIMENTS.find("homnist"), known_of("homnist").started_from
    method = next(iter(kind.method_settings["small"]))
    assert told("small", method) == asdict(kind.settings_of("small", method)) != told("small", "nothing")
    assert told("of mine", method) == {}


def test_everything_is_escaped(tmp_path):
    run = make_run(
        tmp_path / "run",
        metrics={HOSTILE: 1.0},
        pictures=[picture(caption=HOSTILE)],
        summary=HOSTILE,
        metrics_meaning={HOSTILE: {"text": HOSTILE}},
        targets={HOSTILE: HOSTILE},
        command=HOSTILE,
        preset=HOSTILE,
        rank=HOSTILE,
        hardware=[HOSTILE],
    )
    known = Known(published=(Published(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, "niso"),))
    (run.path / "log.csv").write_text(f"phase,step,{HOSTILE}\n{HOSTILE},1,2\n")
    for path in (write_report(run, known), write_comparison(sections([run], lambda name: known), tmp_path / "c.html")):
        page = Page(path)
        assert "script" not in page.tags
        assert page.words.count(HOSTILE) >= 3


def test_unfinished_run_says_what_is_missing(tmp_path):
    run = make_run(tmp_path / "run", targets={"eigenspace_energy": "≥ 0.95"})
    run.checkpoint("head").parent.mkdir()
    for phase, step in (("pretrain", 20), ("head", 10)):
        trained = {"step": step, "seconds": 0.0, "determining": {}, "row": {}}
        checkpoint.save(run.checkpoint(phase), {}, trained)
    words = Page(write_report(run, Known())).words
    assert "not finished: it has no metrics.json" in words
    assert "head stands at step 10; `niso resume" in words
    assert "eigenspace_ energy — ≥ 0.95" in words
    assert "no figures" in words


def test_figures_at_several_values_are_one_line(tmp_path):
    errors = {f"ate_skip{skip}": value for skip, value in ((9, 0.5), (0, 0.125), (1, 0.25))}
    pair = {"top1": 0.75, "top5": 0.875}  # two are no series
    run = make_run(
        tmp_path / "run",
        metrics={**errors, **pair},
        metrics_meaning={key: {"text": f"how far off; at {key[-1]}"} for key in errors},
        targets={"ate_skip1": "≤ 0.2"},
    )
    known = Known(published=(Published("NIso", {"ate_skip9": "0.4 ± 0.1"}, "a paper", "niso"),))
    words = Page(write_report(run, known)).words
    for text in (
        "metric at skip 0 1 9 ate 0.1250 0.2500 0.5000 target ≤ 0.2 missed how far off",
        "metric published what it is ate_ skip9 0.4 ± 0.1",
        "metric this run what it is top1 0.7500 top5 0.8750",
    ):
        assert text in words, words


def test_run_that_has_only_begun(tmp_path):
    run = tmp_path / "begun"
    run.mkdir()
    (run / "config.yaml").write_text("seed: 0\n")
    words = Page(write_report(Run.open(run), Known())).words
    for text in (
        "begun",
        "nothing is trained yet; `niso resume",
        "no figures",
        "no log.csv",
        "no run.json",
        "niso run EXPERIMENT",
    ):
        assert text in words
    (run / "config.yaml").write_text('{"experiment": "torus", "preset": "quick", "seed": 3}')
    assert f"niso run torus --config {run}/config.yaml" in Page(write_report(Run.open(run), Known())).words


def test_pictures_without_caption_or_file(tmp_path):
    run = make_run(tmp_path / "run", metrics={}, pictures=[picture("first"), picture("gone")])
    figures = run.path / "figures"
    (figures / "gone.png").write_bytes(b"not a picture, but long enough to be one")
    (figures / "extra.png").write_bytes((figures / "first.png").read_bytes())
    words = Page(write_report(run, Known())).words
    assert "Figure 2 is missing or damaged: figures/gone.png" in words
    assert "Figure 3. extra" in words


def test_there_must_be_a_run():
    with pytest.raises(ValueError, match="no runs"):
        sections([], ask)


@pytest.mark.parametrize("content", ['{"half":', "[1]"])
def test_damaged_metrics_are_named(tmp_path, content):
    run = make_run(tmp_path / "run")
    (run.path / "metrics.json").write_text(content)
    with pytest.raises(InputError, match=r"metrics\.json.*niso evaluate"):
        write_report(run, Known())


def test_pictures_are_kept_in_order_and_replaced(tmp_path):
    folder = tmp_path / "figures"
    save_pictures([picture("b", "first"), picture("a", "second")], folder)
    assert list(json.loads((folder / "captions.json").read_text()).items()) == [("b", "first"), ("a", "second")]
    kept = ["a.png", "b.png", "captions.json", "dark", "dark/a.png", "dark/b.png"]
    assert sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*")) == kept
    save_pictures([picture("a", "third")], folder)
    assert json.loads((folder / "captions.json").read_text()) == {"a": "third"}
    with pytest.raises(ValueError, match="two pictures are named 'a'"):
        save_pictures([picture("a"), picture("a")], folder)
    for name in ("", "../a", "a/b", ".a"):
        with pytest.raises(ValueError, match="plain file stem"):
            picture(name)


def test_comparison_states_mean_error_and_worst(tmp_path, comparison_table):
    energies, errors = (0.9, 0.95, 1.0, 0.97), (0.01, 0.03, 0.02, 0.02)
    runs = []
    for seed, (e, r) in enumerate(zip(energies, errors, strict=True)):
        metrics = {"eigenspace_energy": e, "equivariance_error": r, "map_chance": e, "gap": r}
        known = meaning(eigenspace_energy=("mean energy", "higher", ""), equivariance_error=("", "lower", ""))
        runs.append(make_run(tmp_path / str(seed), seed, metrics, metrics_meaning=known))
    runs.append(make_run(tmp_path / "running", 9))
    runs.append(make_run(tmp_path / "ablation", 5, {"eigenspace_energy": 0.5}, method="orthogonal"))
    table = comparison_table(runs)
    rows = {(row["method"], row["metric"]): row for row in table}
    energy = rows["niso", "eigenspace_energy"]
    assert energy["mean"] == pytest.approx(0.955)
    # deviations −0.055, −0.005, 0.045, 0.015: squares sum to 0.0053; √(0.0053 / 3 / 4)
    assert energy["standard_error"] == pytest.approx(math.sqrt(0.0053 / 12))
    assert (energy["seeds"], energy["values"]) == ([0, 1, 2, 3], list(energies))
    assert (energy["worst"], energy["worst_seed"]) == (0.9, 0)
    assert rows["niso", "equivariance_error"]["worst_seed"] == 1
    assert rows["niso", "map_chance"]["worst"] is rows["niso", "gap"]["worst"] is None
    single = rows["orthogonal", "eigenspace_energy"]
    assert (single["mean"], single["standard_error"]) == (0.5, None)
    page = Page(write_comparison(sections(runs, ask), tmp_path / "comparison.html"))
    for text in (
        "Comparison of 6 runs",
        "preset method seeds eigenspace_ energy equivariance_ error map_ chance gap quick niso 4 0.955 ± 0.021 worst",
        "worst 0.9000 (seed 0)",
        "quick orthogonal 1 0.5000 — — —",
        "eigenspace_energy mean energy higher is better",
        "not finished (no metrics.json): running",
        "eigenspace_ energy 0.9000 0.9500 1 0.9700",
    ):
        assert text in page.words
    assert not page.bare


def test_comparison_of_a_run_that_diverged(tmp_path, comparison_table):
    runs = [make_run(tmp_path / str(seed), seed, {"loss": loss}) for seed, loss in enumerate((1.0, math.nan, 2.0))]
    (row,) = comparison_table(runs, lambda name: Known(metrics=(Metric("loss", "", "lower"),)))
    assert math.isnan(row["mean"]) and math.isnan(row["standard_error"])
    assert row["worst_seed"] == 1
    assert "nan ± nan" in Page(write_comparison(sections(runs, ask), tmp_path / "c.html")).words


def test_numbers_as_text():
    assert [number(x) for x in (0.0, 3, 12345.0, 0.5, 1234.5)] == ["0", "3", "12,345", "0.5000", "1234"]
    assert [number(x) for x in (1e-7, None, "≥ 1", True)] == ["1.000e-07", "—", "≥ 1", "True"]
    assert [duration(x) for x in (4.0, 200.0, 22320.0)] == ["4 s", "3 min 20 s", "6 h 12 min"]
    assert [with_error(8000.0, 0.0), with_error(1234.5, 67.0)] == ["8,000", "1,234 ± 67"]
    assert [with_error(-4e-4, 0.01), with_error(0.5, 0.0996)] == ["0.000 ± 0.010", "0.50 ± 0.10"]
    assert verdict(0.95, ">= 95 %") == "met" and verdict(float(np.nextafter(0.95, 0)), ">= 95 %") == "missed"
    assert verdict(0.95, "0.95") == verdict(None, ">= 0.95") == ""


def test_matplotlib_is_loaded_only_for_pictures():
    code = "import sys, niso; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

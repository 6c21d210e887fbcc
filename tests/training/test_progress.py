import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from niso.training.progress import Bar, Log, Meter, every, quiet, stage
from niso.training.run import read_log
from tests.pretended import pretended_gpu


def terms(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}


def test_meter_means_since_the_last_flush():
    meter = Meter()
    for value in (1.0, 2.0, 6.0):
        meter.add(terms(loss=value, part=value / 2))
    assert meter.flush() == {"loss": 3.0, "part": 1.5}
    meter.add(terms(loss=8.0))
    assert meter.flush() == {"loss": 8.0}


def test_meter_keeps_the_digits_of_each_term():
    meter = Meter()
    single, double = torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64)
    meter.add({"loss": single, "part": double, "half": single.half()})
    assert meter.flush() == {"loss": single.item(), "part": 0.1, "half": single.half().item()}
    assert meter.flush() == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meter_takes_sums_up_as_if_it_had_not_stopped(dtype):
    values = torch.linspace(0.1, 0.7, 7, dtype=dtype) / 3
    whole, before, after = Meter(), Meter(), Meter()
    for value in values:
        whole.add({"loss": value})
    for value in values[:3]:
        before.add({"loss": value})
    after.go_on(before.count, before.sums())
    assert after.sums() == before.sums()
    for value in values[3:]:
        after.add({"loss": value})
    assert after.flush() == whole.flush()


def test_meter_takes_terms_of_two_devices():
    """As where a run goes on whose objective gives a term only now and then: what it gave before is on the CPU."""
    with pretended_gpu() as gpu:
        meter = Meter()
        meter.go_on(2, {"loss": 3.0, "rare": 1.0})
        meter.add({"loss": torch.tensor(4.0, device=gpu), "constant": torch.tensor(2.0)})
        assert meter.sums() == {"loss": 7.0, "rare": 1.0, "constant": 2.0}
        meter.add({"loss": torch.tensor(1.0, device=gpu), "rare": torch.tensor(3.0, device=gpu)})
        assert meter.flush() == {"loss": 2.0, "rare": 1.0, "constant": 0.5}


def test_meter_keeps_no_graph_and_does_not_change_its_input():
    meter, loss = Meter(), torch.tensor(2.0, requires_grad=True)
    for _ in range(3):
        meter.add({"loss": loss})
    assert loss.item() == 2.0 and meter.flush() == {"loss": 2.0}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_meter_names_the_term_rather_than_the_total(bad):
    meter = Meter()
    meter.add(terms(loss=bad, good=1.0, part=bad))
    with pytest.raises(FloatingPointError, match="the term 'part' of the loss is not finite"):
        meter.check_finite()
    meter.flush()
    meter.add(terms(loss=bad, good=1.0))
    with pytest.raises(FloatingPointError, match="the term 'loss'"):
        meter.check_finite()
    meter.flush()
    meter.add(terms(loss=1.0))
    meter.check_finite()


@pytest.mark.parametrize("name", Log.FIXED)
def test_terms_are_not_named_as_columns_of_the_log(name):
    with pytest.raises(TypeError, match=f"column '{name}' of its own: give that term of the loss another name"):
        Meter().add(terms(loss=1.0, **{name: 2.0}))


def test_log_rows_and_new_columns(tmp_path):
    log = Log(tmp_path, "pretrain", 0)
    log.write(10, 0.5, 1.25, {"loss": 2.0})
    log.write(20, 0.25, 2.5, {"loss": 1.0, "extra, term": 3.0})
    log.close()
    head = Log(tmp_path, "head", 0)
    head.write(5, 0.1, 0.5, {"loss": 7.0})
    head.close()
    first, second, third = read_log(tmp_path / "log.csv")
    assert list(first) == ["phase", "step", "learning_rate", "seconds", "loss", "extra, term"]
    assert first == {
        "phase": "pretrain", "step": "10", "learning_rate": "0.5", "seconds": "1.250", "loss": "2", "extra, term": "",
    }  # fmt: skip
    assert second["extra, term"] == "3"
    assert (third["phase"], third["step"], third["loss"]) == ("head", "5", "7")
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_resuming_drops_the_rows_beyond_the_checkpoint(tmp_path):
    for phase in ("pretrain", "head"):
        log = Log(tmp_path, phase, 0)
        for step in (10, 20, 30):
            log.write(step, 0.1, 0.0, {"loss": 1.0})
        log.close()
    log = Log(tmp_path, "head", 20)
    log.write(25, 0.1, 0.0, {"loss": 1.0})
    log.close()
    rows = [(row["phase"], row["step"]) for row in read_log(tmp_path / "log.csv")]
    assert rows == [("pretrain", "10"), ("pretrain", "20"), ("pretrain", "30")] + [
        ("head", step) for step in ("10", "20", "25")
    ]
    for phase, steps in (("pretrain", [10, 20, 30]), ("head", [10, 20, 25])):
        events = EventAccumulator(str(tmp_path / "tensorboard" / phase))
        assert [event.step for event in events.Reload().Scalars(f"{phase}/loss")] == steps


def test_steps_before_the_first_checkpoint_are_not_shown_twice(tmp_path):
    for last in (3, 5):  # the first was killed
        log = Log(tmp_path, "pretrain", 0)
        for step in range(1, last + 1):
            log.write(step, 0.1, 0.0, {"loss": 1.0})
        log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard" / "pretrain"))
    assert [event.step for event in events.Reload().Scalars("pretrain/loss")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("tail", ["pretrain,3", "pretrain,30,0.1,0.000,0.12", "\0\0\0\0", "pre", "\xff"])
def test_a_last_line_that_was_cut_is_left_out(tmp_path, tail):
    log = Log(tmp_path, "pretrain", 0)
    log.write(10, 0.1, 0.0, {"loss": 1.0})
    log.write(20, 0.1, 0.0, {"loss": 1.0})
    log.close()
    path = tmp_path / "log.csv"
    path.write_bytes(path.read_bytes() + tail.encode("latin-1"))
    assert [row["step"] for row in read_log(path)] == ["10", "20"]
    again = Log(tmp_path, "pretrain", 20)
    again.write(30, 0.1, 0.0, {"loss": 0.5})
    again.close()
    assert [(row["step"], row["loss"]) for row in read_log(path)] == [("10", "1"), ("20", "1"), ("30", "0.5")]


def test_no_log_has_no_rows(tmp_path):
    assert read_log(tmp_path / "log.csv") == []
    (tmp_path / "log.csv").touch()
    assert read_log(tmp_path / "log.csv") == []


@pytest.mark.parametrize("steps", [1, 3, 399, 400, 1_000, 1_000_000])
def test_every_gives_a_log_of_a_few_hundred_rows(steps):
    assert 1 <= steps // every(steps) <= 800


def test_bar_prints_one_plain_line_where_nobody_watches(capsys):
    with Bar("pretrain", 3, 0, visible=True) as bar:
        for step in (1, 2, 3):
            bar.show(step, {"loss": 0.25})
    assert capsys.readouterr().err.startswith("pretrain 3/3 ")
    with Bar("pretrain", 3, 0, visible=False) as bar:
        bar.show(3, {"loss": 0.25})
    assert capsys.readouterr().err == ""


def test_rates_leave_out_what_comes_before_the_first_call(capsys, monkeypatch):
    seconds = iter([0.0, 100.0, 101.0, 131.0])
    monkeypatch.setattr("niso.training.progress.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with Bar("head", 100, 0, visible=True) as bar:
        for step in (1, 2, 32):
            bar.show(step, {})
    first, last = capsys.readouterr().err.splitlines()
    assert first == "head 1/100: "
    assert last == "head 32/100 1.0 steps/s, 68 s left: "


def test_bar_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with Bar("pretrain", 4, 1, visible=True) as bar:
        bar.show(4, {"loss": 0.25, "l[one]": 0.5})
    assert "4/4" in screen.getvalue() and "loss 0.25 l[one] 0.5" in screen.getvalue() and "steps/s" in screen.getvalue()


def test_a_stage_is_shown_on_a_terminal_alone(monkeypatch, capsys):
    with stage("evaluation"):
        pass
    assert capsys.readouterr() == ("", "")
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with quiet(), stage("evaluation"):
        pass
    with stage("evaluation", visible=False):
        pass
    assert "evaluation" not in screen.getvalue()
    with stage("evaluation"):
        pass
    assert "evaluation" in screen.getvalue() and "0:00:0" in screen.getvalue()


def test_a_bar_may_be_shown_within_a_stage(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with stage("evaluation"), Bar("prepare", 2, 0, visible=True) as bar:
        bar.show(2, {})
    assert "2/2" in screen.getvalue()

import io
from types import SimpleNamespace

from rich.console import Console

from niso.messages import quiet
from niso.training.progress import Bar, stage


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

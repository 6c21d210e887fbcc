"""log.csv and TensorBoard events of a run."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from niso.training.log import Log, read_log, row_interval


@pytest.fixture(autouse=True)
def numbered_from_one(monkeypatch):
    """Events of one second are read in the order of their files' names, in which the tenth comes before the ninth."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


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
def test_the_interval_gives_a_log_of_a_few_hundred_rows(steps):
    assert 1 <= steps // row_interval(steps) <= 800

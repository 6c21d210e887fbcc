from niso.training.times import Times


def test_what_killed_commands_took_is_added(monkeypatch):
    now = iter([10.0, 13.0, 14.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    times = Times(began=8.0, before={"start": 1.0})
    times.end("start")
    times.end("training")
    assert times.seconds == {"start": 3.0, "training": 3.0}
    times.at_least("training", 2.0)
    times.at_least("evaluation", 5.0)  # which has not been
    assert times.seconds == {"start": 3.0, "training": 3.0}
    times.at_least("training", 50.0)
    times.end("training")
    assert times.seconds == {"start": 3.0, "training": 51.0}

import signal

import pytest

from niso.errors import Interrupted, NisoError, nearest


@pytest.mark.parametrize(
    ("name", "clause"),
    [("quik", "; did you mean quick?"), ("zzz", "; choose from quick, paper"), ("", "; choose from quick, paper")],
)
def test_nearest_names_the_closest_or_all(name, clause):
    assert nearest(name, ["quick", "paper"]) == clause


def test_nearest_takes_any_iterable():
    assert nearest("steps", iter({"step": 1})) == "; did you mean step?"


def test_interrupted_carries_the_signal():
    error = Interrupted("stopped", signal.SIGTERM)
    assert isinstance(error, NisoError) and str(error) == "stopped" and error.number == 15

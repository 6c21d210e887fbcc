"""Values by name: words of a command, and dataclasses that take them."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niso.config import _adapter
from niso.errors import InputError
from niso.named_values import FROM_DATA, changed, from_words, mistake, settable

NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
VALUES = st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
def test_numbers_and_truths_survive_words(values):
    read = from_words([f"{name}={value}" for name, value in values.items()])
    assert read == values and [*map(type, read.values())] == [*map(type, values.values())]


def test_texts_lists_and_nothing_are_values():
    assert from_words(["a=left", "b=[1, 2]", "c=null", "d=1e-3", "e=x=y", "f="]) == {
        "a": "left", "b": [1, 2], "c": None, "d": 0.001, "e": "x=y", "f": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give NAME=VALUE, one or several, or leave it out"),
        (["angle"], "'angle' must be NAME=VALUE"),
        (["=3"], "'=3' must be NAME=VALUE"),
        (["a=["], "is not a value of YAML"),
        (["a=1", "a=2"], "a is given twice"),
    ],
)
def test_words_that_are_no_values_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        from_words(words)


@dataclass(frozen=True)
class Waves:
    count: int = 3
    height: float = 0.5
    edge: str | None = None
    channels: int = field(default=1, metadata=FROM_DATA)
    made: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count must be positive, got {self.count}")


@dataclass(frozen=True)
class Needy:
    size: int
    height: float = 0.5


def test_settings_are_fields_with_defaults_that_the_data_does_not_give():
    assert settable(Waves) == ("count", "height", "edge")
    assert settable(Needy) == ("height",)
    assert changed("waves", Waves(channels=4), {"count": 5, "edge": "left"}) == Waves(5, edge="left", channels=4)
    assert changed("needy", Needy(2), {"height": 1}) == Needy(2, 1.0)
    assert changed("nothing", None, {}) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 3}, "waves has no setting 'cuont'; did you mean count"),
        ({"channels": 3}, "waves has no setting 'channels'"),
        ({"made": 3}, "waves has no setting 'made'"),
        ({"count": 1.5}, "waves: count: "),
        ({"count": "many"}, "waves: count: "),
        ({"height": None}, "waves: height: "),
        ({"height": float("nan")}, "waves: height must be finite, got nan"),
        ({"height": float("inf")}, "waves: height must be finite, got inf"),
        ({"count": 0}, "waves: count must be positive, got 0"),
    ],
)
def test_values_that_do_not_fit_are_refused_in_one_line(values, message):
    with pytest.raises(InputError, match=message) as caught:
        changed("waves", Waves(), values)
    assert "\n" not in str(caught.value)


def test_settings_may_be_asked_for_in_each_step():
    """Nothing is built anew, or kept, for each call."""
    changed("waves", Waves(), {"count": 5})
    before = _adapter.cache_info().currsize
    for count in range(1, 20):
        assert changed("waves", Waves(), {"count": count}).count == count
    assert _adapter.cache_info().currsize == before


@pytest.mark.parametrize("instance", [None, object()])
def test_what_has_no_settings_says_so(instance):
    with pytest.raises(InputError, match="method niso has no settings of its own"):
        changed("method niso", instance, {"a": 1})


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(Waves, ""), (Needy, ".size needs a default"), (Waves(), " must be a dataclass"), (dict, " must be a dataclass")],
)
def test_classes_of_settings_are_dataclasses_with_defaults(kind: Any, problem):
    assert mistake(kind) == problem

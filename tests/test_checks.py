"""The suite checks what it says it checks: a check that is off would be seen nowhere else."""

import sys
from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from niso import losses
from niso.config import Optimisation
from niso.networks import MLP
from tests.checks import CALLS, checked, tests


def test_functions_methods_and_dataclasses_of_niso_are_checked():
    with pytest.raises(TypeCheckError, match="parameter progress"):
        losses.decayed(1.0, 0.1, "half")
    with pytest.raises(TypeCheckError, match="parameter inputs"):
        MLP("two", 3)
    with pytest.raises(TypeCheckError, match="parameter steps"):
        Optimisation(steps="many")
    unchecked = [
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "niso"
        and getattr(module, "__file__", None)
        and not hasattr(module, "checked by the suite")
    ]
    assert not unchecked


def test_sizes_agree_within_a_call_alone():
    @checked
    def doubled(a: Float[Tensor, "batch n"], b: "Float[Tensor, 'batch']", longer: int = 0) -> Float[Tensor, " batch"]:
        return torch.cat([b, b[:longer]])

    for batch in (2, 3):  # which a size of the call before would forbid
        assert doubled(torch.ones(batch, 4), torch.ones(batch)).shape == (batch,)
    with pytest.raises(TypeCheckError, match="parameter b"):
        doubled(torch.ones(2, 4), torch.ones(3))
    with pytest.raises(TypeCheckError, match="return"):
        doubled(torch.ones(2, 4), torch.ones(2), longer=1)
    with pytest.raises(TypeCheckError, match="parameter a"):
        doubled(torch.ones(2, 4).int(), torch.ones(2))


def test_a_call_unlike_those_that_passed_is_checked():
    @checked
    def first(
        values: dict[str, Float[Tensor, " n"]], of: Callable[[Tensor], object], more: list[int]
    ) -> Float[Tensor, ""]:
        return of(values["a"])

    good = torch.ones(2)
    for _ in range(2):
        assert first({"a": good}, torch.sum, [1]) == 2
    with pytest.raises(TypeCheckError, match="parameter values"):
        first({"a": good[None]}, torch.sum, [1])
    with pytest.raises(TypeCheckError, match="parameter more"):
        first({"a": good}, torch.sum, ["1"])
    with pytest.raises(TypeCheckError, match="return"):
        first({"a": good}, torch.neg, [1])


def test_names_for_type_checkers_alone_are_not_checked():
    def known_later(a: "OnlyWhileChecking", b: int) -> None:  # noqa: F821  # as under TYPE_CHECKING
        pass

    checked(known_later)(object(), 1)
    with pytest.raises(TypeCheckError, match="parameter b"):
        checked(known_later)(object(), "one")


def test_calls_beyond_a_number_are_checked_in_the_next_test_again():
    @checked
    def doubled(a: int) -> int:
        return 2 * a

    for number in range(CALLS):
        doubled(number)
    assert doubled("a") == "aa"
    tests.begun += 1
    with pytest.raises(TypeCheckError, match="parameter a"):
        doubled("a")

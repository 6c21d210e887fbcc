"""Torch's defaults while niso trains or loads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from niso.config import Hardware
from niso.training.defaults import new_defaults, rounds_products
from niso.training.processes import make_fabric


@pytest.fixture
def rounding() -> Iterator[None]:
    """Products are not rounded after a test."""
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_are_not_rounded_and_the_program_keeps_its_setting(rounding: None, precision: str) -> None:
    torch.set_float32_matmul_precision(precision)
    assert rounds_products()
    with pytest.raises(KeyError), new_defaults():
        assert torch.get_float32_matmul_precision() == "highest" and not rounds_products()
        raise KeyError
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch has no newer switch")
def test_so_it_does_by_the_newer_switch(rounding: None) -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with new_defaults():
        assert torch.get_float32_matmul_precision() == "highest" and not rounds_products()
    assert torch.backends.cuda.matmul.fp32_precision == "tf32" and rounds_products()


def test_a_run_rounds_no_products(rounding: None) -> None:
    torch.set_float32_matmul_precision("medium")
    make_fabric(Hardware(accelerator="cpu"), tune=False)
    assert torch.get_float32_matmul_precision() == "highest"

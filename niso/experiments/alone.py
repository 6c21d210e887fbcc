"""What the user's own networks and heads make of an observation: it must depend on that alone, and train them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from niso.errors import InputError
from niso.random import reseed
from niso.testing import relative_error

TRIED = 8
"""Observations that a method or a classifier is tried on before training, at most."""
ALONE = 1e-4
"""Relative difference from which what is made of an observation depends on others, or on chance."""
NORM = "normalise each observation by itself, e.g. by nn.GroupNorm"
CUT = "cuts off its gradients, so that it does not train: leave out detach() and torch.no_grad()"


def check_alone(what: str, one: Tensor, beside: Tensor, redrawn: Tensor) -> None:
    """Check what is made of an observation in evaluation mode.

    Args:
        what: that is, for messages.
        one: what is made of it.
        beside: the same beside other observations.
        redrawn: the same as `one`, with chance drawn anew.

    Raises:
        InputError: it depends on chance, or on the others.
    """
    if relative_error(one, redrawn) > ALONE:
        problem = f"{what} for an observation differ from call to call in evaluation mode"
        raise InputError(f"{problem}: let dropout and noise depend on self.training")
    if depends(one, beside):
        raise InputError(f"{what} for an observation depend on the others of its batch in evaluation mode: {NORM}")


def depends(one: Tensor, beside: Tensor) -> bool:
    """Whether what is made of an observation is another beside others."""
    return relative_error(one, beside) > ALONE


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers of a seed, as of dropout; afterwards generators are as before."""
    there = device.type == "cuda" and torch.cuda.is_available()  # tests pretend one
    with torch.random.fork_rng([device] if there else []):
        reseed(seed, device if there else torch.device("cpu"))
        yield

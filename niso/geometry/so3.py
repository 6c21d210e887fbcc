"""Rotations of space: the functions of roma, which is imported with the first of them.

With it comes torch's compiler, which is slow to import: trained models are listed, loaded and used without.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor


def special_procrustes(matrices: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3 3"]:
    """The nearest rotations, by roma: it makes a table at its first call, which is not to be on a default device."""
    import roma

    with matrices.device:
        return roma.special_procrustes(matrices)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    import roma

    return getattr(roma, name)

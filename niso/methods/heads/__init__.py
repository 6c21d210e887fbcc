"""Classification heads on the features of a method (paper §4.4): invariant ones, a file and a line here each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.methods.heads.head import Head  # loads torch

HEADS: Registry[type[Head]] = Registry(
    "classifier",
    {
        "vector-neurons": "niso.methods.heads.vector_neurons.VectorNeurons",
        "spectral": "niso.methods.heads.spectral.Spectral",
        "eigenspaces": "niso.methods.heads.eigenspaces.Eigenspaces",
    },
    base="niso.methods.heads.head.Head",
    group=__name__,
)
"""The first is for every method: it takes the place of one that a method cannot have."""

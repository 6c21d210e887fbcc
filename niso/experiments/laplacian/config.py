"""Settings that torus and sphere share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from niso.config import require
from niso.methods.config import IsometryConfig

COMMON: dict[str, Any] = {
    "eigenvalues": "sorted",
    "equivariance": 0.0,
    "spectral_dropout": 0.5,
    "evaluation_pairs": 64,
}
"""What all presets share. With identity networks L_E says hardly more than L_R: with mean squares, all eigenfunctions
and a mass of 1 they are equal."""


@dataclass(frozen=True)
class LaplacianConfig(IsometryConfig):
    """Settings that the torus and the sphere experiment share."""

    size: int = 8
    """Side n of the grid; the latent domain has n² points."""
    images: int = 86
    """Crops stacked into one observation: 3 channels each."""
    pool: int = 20_000
    """Crops drawn from the training photographs once; observations are stacked from them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "size", "images", "pool", positive=True)

    @property
    def full_rank(self) -> int:
        """Dimension of the functions on the domain: the largest rank, and the default."""
        return self.size**2

    def check_rank(self, functions: str = "functions") -> None:
        """Check that the rank is at most that of all functions.

        Args:
            functions: what these are, for the message.

        Raises:
            ValueError: it is not.
        """
        if self.rank is not None and not 1 <= self.rank <= self.full_rank:
            raise ValueError(f"rank {self.rank} must lie between 1 and the number of {functions}, {self.full_rank}")

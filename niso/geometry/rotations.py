"""Rotations of functions on the sphere: exact for band-limited ones, by bilinear interpolation for any."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import Action, check_kind, in_single_precision, on_device_of
from niso.geometry.affine import AffineMaps
from niso.geometry.domains import equirectangular, sphere
from niso.geometry.rotation_group import RotationGroup
from niso.geometry.turns import Turns


@dataclass(frozen=True)
class Rotations(RotationGroup):
    """Rotations of functions on the size × size Driscoll–Healy grid; see `niso.geometry.action.Action`.

    Observations are (batch, size², channels), the grid points in row-major order, and (Rf)(x) = f(R⁻¹x). Matrices and
    their strength are those of `RotationGroup`.

    Attributes:
        band: bandwidth of the observations; what they have of other degrees is lost. `sphere.band_limited` limits them.
        exact: whether to rotate by Wigner-D matrices. Otherwise functions of any bandwidth are rotated by bilinear
            interpolation, which is not an isometry, and `band` makes no difference.

    Raises:
        ValueError: see `sphere.check_grid`; `act` raises it for observations on another grid.
    """

    size: int
    band: int
    exact: bool = True

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> Action:
        """Rotations of the plane for images, and of space for volumes; ValueError for others. A subclass is called."""
        if cls is not Rotations:
            return cls()  # type: ignore[call-arg]  # it has defaults, or is refused
        check_kind(kind, "images", "volumes")
        if kind == "volumes":
            return Turns.of(kind, shape)
        return replace(AffineMaps.of(kind, shape), scale=0.0, shear=0.0, shift=0.0)

    def __post_init__(self) -> None:
        sphere.check_grid(self.size, self.size, self.band)

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch points channels"], t: Float[Tensor, "#batch 3 3"]
    ) -> Float[Tensor, "batch points channels"]:
        if x.shape[1] != self.size**2:
            raise ValueError(f"{x.shape[1]} points are not a {self.size}×{self.size} grid")
        t = on_device_of(x, t).to(x.dtype)
        if self.exact:
            basis = sphere.harmonics(self.size, self.band, x.dtype, x.device)
            coefficients = (basis.functions * basis.weights[:, None]).mT @ x
            return basis.functions @ (sphere.wigner_d(t, self.band) @ coefficients)
        points = equirectangular.directions(self.size, self.size, "driscoll-healy", x.dtype, x.device)
        images = x.mT.unflatten(-1, (self.size, self.size))
        return equirectangular.sample(images, points @ t[:, None], "driscoll-healy").flatten(2).mT

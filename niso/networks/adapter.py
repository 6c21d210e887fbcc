"""Networks whose latents are images or volumes, as encoders and decoders of latent functions."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_count, check_instance, check_tensors
from niso.networks.points import grid_to_points, points_to_grid

_SIDES = ("depth", "height", "width")


class GridToPoints(nn.Module):
    """`grid_to_points` as a module that also checks the grid."""

    def __init__(self, grid: tuple[int, ...]) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, image: Float[Tensor, "batch channel *grid"]) -> Float[Tensor, "batch point channel"]:
        check_tensors(latents=(image, " ".join(["batch", "channels", *_SIDES[-len(self.grid) :]])))
        if tuple(image.shape[2:]) != self.grid:
            given, wanted = (" × ".join(map(str, sides)) for sides in (image.shape[2:], self.grid))
            raise ValueError(f"the encoder's latents are {given}, not {wanted}")
        return grid_to_points(image)


class PointsToGrid(nn.Module):
    """`points_to_grid` as a module."""

    def __init__(self, grid: tuple[int, ...]) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, points: Float[Tensor, "batch point channel"]) -> Float[Tensor, "batch channel *grid"]:
        check_tensors(latents=(points, "batch points channels"))
        return points_to_grid(points, self.grid)


def on_grid(encoder: nn.Module, decoder: nn.Module, grid: tuple[int, ...]) -> tuple[nn.Module, nn.Module]:
    """An encoder to, and a decoder from, latent images (batch, channels, height, width) or volumes (batch, channels,
    depth, height, width), with latent functions (batch, points, channels) in between, as `NeuralIsometry` takes them.

    Args:
        encoder, decoder: modules to, and from, latent images or volumes.
        grid: height and width of the latent images, or depth, height and width of the latent volumes. The encoder
            raises ValueError for latents of another size.

    Returns:
        The encoder and the decoder, as modules.

    Raises:
        TypeError: an encoder or decoder that is not a module, or a grid that is not two or three whole numbers.
        ValueError: a side below 1.
    """
    for name, network in (("encoder", encoder), ("decoder", decoder)):
        check_instance(name, network, nn.Module, "torch.nn.Module")
    if not isinstance(grid, Sequence) or len(grid) not in (2, 3):
        raise TypeError(f"grid must be (height, width) or (depth, height, width), not {grid!r}")
    grid = tuple(check_count(name, side) for name, side in zip(_SIDES[-len(grid) :], grid, strict=True))
    return nn.Sequential(encoder, GridToPoints(grid)), nn.Sequential(PointsToGrid(grid), decoder)

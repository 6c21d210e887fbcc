"""Networks whose latents are images, as encoders and decoders of latent functions."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_count, check_instance, check_tensors
from niso.networks.conv import grid_to_points, points_to_grid


class GridToPoints(nn.Module):
    """`grid_to_points` as a module that also checks the grid."""

    def __init__(self, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, image: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch point channel"]:
        check_tensors(latents=(image, "batch channels height width"))
        if tuple(image.shape[-2:]) != self.grid:
            height, width = image.shape[-2:]
            raise ValueError(f"the encoder's latents are {height} × {width}, not {self.grid[0]} × {self.grid[1]}")
        return grid_to_points(image)


class PointsToGrid(nn.Module):
    """`points_to_grid` as a module."""

    def __init__(self, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, points: Float[Tensor, "batch point channel"]) -> Float[Tensor, "batch channel height width"]:
        check_tensors(latents=(points, "batch points channels"))
        return points_to_grid(points, self.grid)


def on_grid(encoder: nn.Module, decoder: nn.Module, grid: tuple[int, int]) -> tuple[nn.Module, nn.Module]:
    """An encoder to, and a decoder from, latent images (batch, channels, height, width), with latent functions
    (batch, height · width, channels) in between, as `NeuralIsometry` takes them.

    Args:
        encoder, decoder: modules to, and from, latent images.
        grid: height and width of the latent images. The encoder raises ValueError for latents of another size.

    Returns:
        The encoder and the decoder, as modules.

    Raises:
        TypeError: an encoder or decoder that is not a module, or a grid that is not two whole numbers.
        ValueError: a height or width below 1.
    """
    for name, network in (("encoder", encoder), ("decoder", decoder)):
        check_instance(name, network, nn.Module, "torch.nn.Module")
    if not isinstance(grid, Sequence) or len(grid) != 2:
        raise TypeError(f"grid must be (height, width), not {grid!r}")
    grid = (check_count("height", grid[0]), check_count("width", grid[1]))
    return nn.Sequential(encoder, GridToPoints(grid)), nn.Sequential(PointsToGrid(grid), decoder)

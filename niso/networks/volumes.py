"""Encoder and decoder of volumes: three-dimensional convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from niso.config import require
from niso.networks.levels import LevelsConfig, decoder_levels, encoder_levels
from niso.networks.points import grid_to_points, points_to_grid


@dataclass(frozen=True)
class VolumeConfig(LevelsConfig):
    """Size of `VolumeEncoder` and `VolumeDecoder`."""

    size: tuple[int, int, int] = (16, 16, 16)
    """Depth, height and width of the volumes; each divisible by the stride."""
    volume_channels: int = 1
    """Channels of the volumes."""
    kernel: int = 3
    """Samples along each axis that a convolution sees."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "volume_channels", positive=True)
        self.check_sides("volumes", *self.size)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Depth, height and width of the latent grid."""
        depth, height, width = (side // self.stride for side in self.size)
        return depth, height, width


class VolumeEncoder(nn.Module):
    """Volumes (batch, channels, depth, height, width) to latent functions, whose points are in row-major order. Volumes
    of another shape than the configuration's raise ValueError."""

    def __init__(self, config: VolumeConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = encoder_levels(config, config.volume_channels, 3)

    def forward(self, x: Float[Tensor, "batch channel depth height width"]) -> Float[Tensor, "batch point latent"]:
        expected = (self.config.volume_channels, *self.config.size)
        if tuple(x.shape[1:]) != expected:
            raise ValueError(f"this encoder takes volumes (batch, {expected}), got {tuple(x.shape)}")
        return grid_to_points(self.layers(x))


class VolumeDecoder(nn.Module):
    """Latent functions to volumes. Another number of points than the configuration's raises ValueError."""

    def __init__(self, config: VolumeConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = decoder_levels(config, config.volume_channels, 3)

    def forward(self, z: Float[Tensor, "batch point latent"]) -> Float[Tensor, "batch channel depth height width"]:
        return self.layers(points_to_grid(z, self.config.grid))

"""Encoders and decoders of the paper: observations to latent functions (batch, points, channels) and back."""

from niso.networks.conv import ConvConfig, ConvDecoder, ConvEncoder, grid_to_points, points_to_grid
from niso.networks.norm import InstanceNormSiLU

__all__ = [
    "ConvConfig",
    "ConvDecoder",
    "ConvEncoder",
    "InstanceNormSiLU",
    "grid_to_points",
    "points_to_grid",
]

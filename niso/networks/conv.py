"""The mirrored ConvNet encoder and decoder of the image experiments (paper appendix)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_choice
from niso.config import require
from niso.networks.images import ImageConfig
from niso.networks.levels import check_levels, levels, stride_of
from niso.networks.linear import Linear
from niso.networks.norm import NORMS, Normalised
from niso.networks.padding import Padding
from niso.networks.patches import WIDE, FromPatches, ToPatches
from niso.networks.points import grid_to_points, points_to_grid
from niso.networks.unpool import Unpool

LECUN_TRUNCATION = 0.87962566103423978  # standard deviation of a unit normal truncated at ±2


@dataclass(frozen=True)
class ConvConfig(ImageConfig):
    """Size of `ConvEncoder` and `ConvDecoder`. The defaults are homNIST's in the released code.

    The paper's text states channels (128, 256) for homNIST; the released parameter count needs (64, 128).
    """

    channels: tuple[int, ...] = (64, 128)
    """Width of each level, finest first. The number of levels is its length."""
    blocks: int = 3
    """Residual blocks in each level."""
    latent_channels: int = 32
    """Channels d of the latent functions."""
    stem_channels: int = 48
    """Width of the pointwise layer before the encoder's first level."""
    patch: int = 1
    """Side of the squares of pixels that the pointwise layers at both ends read and write at once. The paper has 1;
    2 takes the first level to half the resolution, for a quarter of its time."""
    padding: Padding = "zeros"
    """What convolutions see beyond the image: zeros; circular, its other side; or longitude, that left and right alone,
    as on a grid of the sphere."""
    normalised: Normalised = "space"
    """What is normalised before every convolution. "space", the paper's, takes colour and contrast from photographs:
    "channels" is for these."""

    def __post_init__(self) -> None:
        require(self, "blocks", "latent_channels", "stem_channels", "patch", positive=True)
        check_levels(self.channels)
        check_choice("padding", self.padding, Padding)
        check_choice("normalised", self.normalised, Normalised)
        self.check_size(f"{self.stride} ({len(self.channels)} levels, patch {self.patch})")

    @property
    def stride(self) -> int:
        """Pixels per latent grid point along each axis."""
        return stride_of(self.channels, self.patch)


class Pointwise(Linear):
    """A 1×1 convolution as a matrix product: faster on a CPU than `Conv2d` where one side is narrow."""

    def forward(self, x: Float[Tensor, "batch inputs height width"]) -> Float[Tensor, "batch outputs height width"]:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class LongitudeConv(nn.Conv2d):
    """A 3×3 convolution of images whose left and right edges meet; zeros beyond the others."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, 3, padding=(1, 0))

    def forward(self, x: Float[Tensor, "batch inputs height width"]) -> Float[Tensor, "batch outputs height width"]:
        return super().forward(torch.cat([x[..., -1:], x, x[..., :1]], dim=-1))


_CONVOLUTIONS: dict[Padding, Callable[[int, int], nn.Conv2d]] = {
    "zeros": partial(nn.Conv2d, kernel_size=3, padding=1),
    "circular": partial(nn.Conv2d, kernel_size=3, padding=1, padding_mode="circular"),
    "longitude": LongitudeConv,
}


class ResidualBlock(nn.Module):
    """[norm → SiLU → 3×3 convolution] twice, plus a 1×1 convolution of the input (released code)."""

    def __init__(self, in_channels: int, out_channels: int, padding: Padding, normalised: Normalised) -> None:
        super().__init__()
        norm = NORMS[normalised]
        conv = _CONVOLUTIONS[padding]
        self.norm1 = norm(in_channels)
        self.conv1 = conv(in_channels, out_channels)
        self.norm2 = norm(out_channels)
        self.conv2 = conv(out_channels, out_channels)
        self.skip = nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, x: Float[Tensor, "batch inputs height width"]) -> Float[Tensor, "batch outputs height width"]:
        y = self.conv2(self.norm2(self.conv1(self.norm1(x))))
        return y.add_(self.skip(x))  # in place: a convolution does not need its output for its gradient


def _levels(
    inputs: int, widths: Sequence[int], config: ConvConfig, between: Callable[[], nn.Module]
) -> list[nn.Module]:
    block = partial(ResidualBlock, padding=config.padding, normalised=config.normalised)
    return levels(inputs, widths, config.blocks, block, between)


def _initialise(network: nn.Module) -> None:
    """LeCun-normal weights (truncated at two deviations), zero biases, channels-last storage."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            deviation = 1 / (LECUN_TRUNCATION * math.sqrt(layer.weight[0].numel()))
            nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # absent from torch's stub


class ConvEncoder(nn.Module):
    """Images to latent functions: a pointwise stem with SiLU, then levels of residual blocks and mean pools.

    Images of another size than the configuration's raise ValueError.

    Source: paper appendix "Homography-perturbed MNIST"; stem, norm and initialisation from the released code.
    """

    def __init__(self, config: ConvConfig) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = [
            *([(ToPatches if config.patch >= WIDE else nn.PixelUnshuffle)(config.patch)] if config.patch > 1 else []),
            Pointwise(config.image_channels * config.patch**2, config.stem_channels),
            nn.SiLU(inplace=True),
            *_levels(config.stem_channels, config.channels, config, partial(nn.AvgPool2d, 2)),
            NORMS[config.normalised](config.channels[-1]),
            Pointwise(config.channels[-1], config.latent_channels),
        ]
        self.layers = nn.Sequential(*layers)
        _initialise(self)

    def forward(self, image: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch point latent"]:
        self.config.check_images(image)
        return grid_to_points(self.layers(image))


class ConvDecoder(nn.Module):
    """Latent functions to images: the encoder's levels in reverse, nearest-neighbour unpools, and no stem.

    Another number of points than the configuration's raises ValueError.

    Source: paper appendix "Homography-perturbed MNIST"; released code for the rest.
    """

    def __init__(self, config: ConvConfig) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = [
            *_levels(config.latent_channels, config.channels[::-1], config, Unpool),
            NORMS[config.normalised](config.channels[0]),
            Pointwise(config.channels[0], config.image_channels * config.patch**2),
            *([(FromPatches if config.patch >= WIDE else nn.PixelShuffle)(config.patch)] if config.patch > 1 else []),
        ]
        self.layers = nn.Sequential(*layers)
        _initialise(self)

    def forward(self, latent: Float[Tensor, "batch point latent"]) -> Float[Tensor, "batch channel height width"]:
        return self.layers(points_to_grid(latent, self.config.grid))

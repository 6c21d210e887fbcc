"""Levels of residual blocks, and encoder and decoder of them along one axis or three, of signals and volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_choice
from niso.config import Strict, require
from niso.networks.norm import NORMS, Normalised
from niso.networks.padding import Padding
from niso.networks.points import grid_to_points, points_to_grid
from niso.networks.unpool import Unpool


def check_levels(channels: Sequence[int]) -> None:
    """ValueError where these are no widths of levels."""
    if not channels or min(channels) < 1:
        raise ValueError(f"channels needs one positive width per level, got {channels}")


def stride_of(channels: Sequence[int], patch: int) -> int:
    """Samples per latent point along each axis, of networks with levels of these widths."""
    return patch * 2 ** (len(channels) - 1)


Convolution = Callable[..., nn.Module]
_CONVOLUTIONS: dict[int, tuple[Convolution, Convolution, Convolution]] = {
    1: (nn.Conv1d, nn.ConvTranspose1d, nn.AvgPool1d),
    3: (nn.Conv3d, nn.ConvTranspose3d, nn.AvgPool3d),
}
"""Convolution, its transpose and mean pool along so many axes."""


@dataclass(frozen=True)
class LevelsConfig(Strict):
    """Size of `LevelsEncoder` and `LevelsDecoder`."""

    size: tuple[int, ...] = (64,)
    """Samples of a signal, or depth, height and width of a volume; each divisible by the stride."""
    observed_channels: int = 1
    """Channels of the observations."""
    channels: tuple[int, ...] = (32, 64)
    """Width of each level, finest first; each level has half the samples of the one before, along each axis."""
    blocks: int = 2
    """Residual blocks in each level."""
    latent_channels: int = 32
    """Channels d of the latent functions."""
    patch: int = 1
    """Samples along each axis that the pointwise layers at both ends read and write at once."""
    kernel: int = 5
    """Samples along each axis that a convolution sees."""
    padding: Padding = "zeros"
    """What convolutions see beyond the edges: zeros or, circular, the opposite edge."""
    normalised: Normalised = "space"
    """What is normalised before every convolution. "space" takes their level and size from observations."""

    def __post_init__(self) -> None:
        require(self, "observed_channels", "blocks", "latent_channels", "patch", "kernel", positive=True)
        check_levels(self.channels)
        check_choice("normalised", self.normalised, Normalised)
        check_choice("padding", self.padding, Padding)
        if self.padding == "longitude":
            raise ValueError("only images have a longitude: padding must be zeros or circular")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {self.kernel}")
        if len(self.size) not in _CONVOLUTIONS:
            raise ValueError(f"size needs one number, of signals, or three, of volumes, got {self.size}")
        if any(side < 1 or side % self.stride for side in self.size):
            size = " × ".join(map(str, self.size))
            raise ValueError(f"{self.kind} of {size} samples cannot be divided by the stride {self.stride}")
        if self.padding == "circular" and min(self.grid) < self.kernel // 2:
            raise ValueError(f"a convolution of {self.kernel} samples goes round {min(self.grid)} more than once")

    @property
    def kind(self) -> str:
        """What the observations are."""
        return "signals" if len(self.size) == 1 else "volumes"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation; channels are last in signals and first in volumes."""
        size, channels = self.size, self.observed_channels
        return (*size, channels) if self.kind == "signals" else (channels, *size)

    @property
    def stride(self) -> int:
        """Samples per latent point along each axis."""
        return stride_of(self.channels, self.patch)

    @property
    def grid(self) -> tuple[int, ...]:
        """Latent points along each axis."""
        return tuple(side // self.stride for side in self.size)


class _Block(nn.Module):
    """[norm → SiLU → convolution] twice, plus a pointwise convolution of the input."""

    def __init__(self, config: LevelsConfig, convolution: Convolution, inputs: int, outputs: int) -> None:
        super().__init__()
        kernel = config.kernel
        mode: Literal["zeros", "circular"] = "circular" if config.padding == "circular" else "zeros"
        conv = partial(convolution, kernel_size=kernel, padding=kernel // 2, padding_mode=mode)
        self.layers = nn.Sequential(
            NORMS[config.normalised](inputs),
            conv(inputs, outputs),
            NORMS[config.normalised](outputs),
            conv(outputs, outputs),
        )
        self.skip = convolution(inputs, outputs, 1)

    def forward(self, x: Float[Tensor, "batch inputs *space"]) -> Float[Tensor, "batch outputs *space"]:
        return self.layers(x) + self.skip(x)


class LevelsEncoder(nn.Module):
    """Observations (batch, *shape) to latent functions, whose points are in row-major order: a stem over patches, then
    levels of residual blocks and mean pools. Observations of another shape than the configuration's raise
    ValueError."""

    def __init__(self, config: LevelsConfig) -> None:
        super().__init__()
        self.config = config
        convolution, _, pool = _CONVOLUTIONS[len(config.size)]
        first, last = config.channels[0], config.channels[-1]
        self.layers = nn.Sequential(
            convolution(config.observed_channels, first, config.patch, config.patch),
            *levels(first, config.channels, config.blocks, partial(_Block, config, convolution), partial(pool, 2)),
            NORMS[config.normalised](last),
            convolution(last, config.latent_channels, 1),
        )

    def forward(self, x: Float[Tensor, "batch first *rest"]) -> Float[Tensor, "batch point latent"]:
        kind, shape = self.config.kind, self.config.shape
        if tuple(x.shape[1:]) != shape:
            raise ValueError(f"this encoder takes {kind} (batch, {shape}), got {tuple(x.shape)}")
        return grid_to_points(self.layers(x.mT if kind == "signals" else x))


class LevelsDecoder(nn.Module):
    """The way back: the levels in reverse, with nearest-neighbour unpools. Another number of points than the
    configuration's raises ValueError."""

    def __init__(self, config: LevelsConfig) -> None:
        super().__init__()
        self.config = config
        convolution, transposed, _ = _CONVOLUTIONS[len(config.size)]
        widths, last = config.channels[::-1], config.channels[0]
        self.layers = nn.Sequential(
            *levels(config.latent_channels, widths, config.blocks, partial(_Block, config, convolution), Unpool),
            NORMS[config.normalised](last),
            transposed(last, config.observed_channels, config.patch, config.patch),
        )

    def forward(self, z: Float[Tensor, "batch point latent"]) -> Float[Tensor, "batch first *rest"]:
        x = self.layers(points_to_grid(z, self.config.grid))
        return x.mT if self.config.kind == "signals" else x


def levels(
    inputs: int,
    widths: Sequence[int],
    blocks: int,
    block: Callable[[int, int], nn.Module],
    between: Callable[[], nn.Module],
) -> list[nn.Module]:
    """Levels of so many blocks each, and what changes the resolution between them.

    Args:
        inputs: channels before the first level.
        widths: channels of each level.
        block: makes one from its numbers of channels in and out.
        between: makes a pool or an unpool.
    """
    layers = list[nn.Module]()
    for level, width in enumerate(widths):
        layers += [between()] if level else []
        layers += [block(i, o) for i, o in pairwise([inputs, *[width] * blocks])]
        inputs = width
    return layers

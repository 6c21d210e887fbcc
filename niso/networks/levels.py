"""Levels of residual blocks, and networks of them along one or three axes, of signals and volumes."""

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
from niso.networks.unpool import Unpool


def check_levels(channels: Sequence[int]) -> None:
    """ValueError where these are no widths of levels."""
    if not channels or min(channels) < 1:
        raise ValueError(f"channels needs one positive width per level, got {channels}")


def stride_of(channels: Sequence[int], patch: int) -> int:
    """Samples per latent point along each axis, of networks with levels of these widths."""
    return patch * 2 ** (len(channels) - 1)


@dataclass(frozen=True)
class LevelsConfig(Strict):
    """What configurations of encoders and decoders of signals and volumes share."""

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
        require(self, "blocks", "latent_channels", "patch", "kernel", positive=True)
        check_levels(self.channels)
        check_choice("normalised", self.normalised, Normalised)
        check_choice("padding", self.padding, Padding)
        if self.padding == "longitude":
            raise ValueError("only images have a longitude: padding must be zeros or circular")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {self.kernel}")

    @property
    def stride(self) -> int:
        """Samples per latent point along each axis."""
        return stride_of(self.channels, self.patch)

    def check_sides(self, what: str, *sides: int) -> None:
        """ValueError where observations with so many samples along each axis cannot be divided into latent points."""
        size = " × ".join(map(str, sides))
        if any(side < 1 or side % self.stride for side in sides):
            raise ValueError(f"{what} of {size} samples cannot be divided by the stride {self.stride}")
        fewest = min(sides) // self.stride
        if self.padding == "circular" and fewest < self.kernel // 2:
            raise ValueError(f"a convolution of {self.kernel} samples goes round {fewest} more than once")


Convolution = Callable[..., nn.Module]
_CONVOLUTIONS: dict[int, tuple[Convolution, Convolution, Convolution]] = {
    1: (nn.Conv1d, nn.ConvTranspose1d, nn.AvgPool1d),
    3: (nn.Conv3d, nn.ConvTranspose3d, nn.AvgPool3d),
}
"""Convolution, its transpose and mean pool along so many axes."""


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


def encoder_levels(config: LevelsConfig, inputs: int, axes: int) -> nn.Sequential:
    """(batch, inputs, *space) to (batch, latent channels, *latent grid): a stem over patches, then levels of residual
    blocks and mean pools."""
    convolution, _, pool = _CONVOLUTIONS[axes]
    first, last = config.channels[0], config.channels[-1]
    return nn.Sequential(
        convolution(inputs, first, config.patch, config.patch),
        *levels(first, config.channels, config.blocks, partial(_Block, config, convolution), partial(pool, 2)),
        NORMS[config.normalised](last),
        convolution(last, config.latent_channels, 1),
    )


def decoder_levels(config: LevelsConfig, outputs: int, axes: int) -> nn.Sequential:
    """The way back: the levels in reverse, with nearest-neighbour unpools."""
    convolution, transposed, _ = _CONVOLUTIONS[axes]
    widths, last = config.channels[::-1], config.channels[0]
    return nn.Sequential(
        *levels(config.latent_channels, widths, config.blocks, partial(_Block, config, convolution), Unpool),
        NORMS[config.normalised](last),
        transposed(last, outputs, config.patch, config.patch),
    )


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

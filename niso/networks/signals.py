"""One-dimensional convolutions: encoder and decoder of signals, the image networks' levels along one axis."""

from __future__ import annotations

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


@dataclass(frozen=True)
class SignalConfig(Strict):
    """Size of `SignalEncoder` and `SignalDecoder`."""

    length: int = 64
    """Samples of a signal; divisible by the stride."""
    signal_channels: int = 1
    """Channels of the signals."""
    channels: tuple[int, ...] = (32, 64)
    """Width of each level, finest first; each level has half the samples of the one before."""
    blocks: int = 2
    """Residual blocks in each level."""
    latent_channels: int = 32
    """Channels d of the latent functions."""
    patch: int = 1
    """Samples that the pointwise layers at both ends read and write at once."""
    kernel: int = 5
    """Samples that a convolution sees."""
    padding: Padding = "zeros"
    """What convolutions see beyond the ends: zeros or, circular, the other end."""
    normalised: Normalised = "space"
    """What is normalised before every convolution. "space" takes the level and the size from signals."""

    def __post_init__(self) -> None:
        require(self, "length", "signal_channels", "blocks", "latent_channels", "patch", "kernel", positive=True)
        if not self.channels or min(self.channels) < 1:
            raise ValueError(f"channels needs one positive width per level, got {self.channels}")
        check_choice("normalised", self.normalised, Normalised)
        check_choice("padding", self.padding, Padding)
        if self.padding == "longitude":
            raise ValueError("signals have no longitude: padding must be zeros or circular")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {self.kernel}")
        if self.length % self.stride:
            raise ValueError(f"signals of {self.length} samples cannot be divided by the stride {self.stride}")
        if self.padding == "circular" and self.points < self.kernel // 2:
            raise ValueError(f"a convolution of {self.kernel} samples goes round {self.points} more than once")

    @property
    def stride(self) -> int:
        """Samples per latent point."""
        return self.patch * 2 ** (len(self.channels) - 1)

    @property
    def points(self) -> int:
        """Number N of latent points."""
        return self.length // self.stride


class _Block(nn.Module):
    """[norm → SiLU → convolution] twice, plus a pointwise convolution of the input."""

    def __init__(self, inputs: int, outputs: int, config: SignalConfig) -> None:
        super().__init__()
        kernel = config.kernel
        mode: Literal["zeros", "circular"] = "circular" if config.padding == "circular" else "zeros"
        conv = partial(nn.Conv1d, kernel_size=kernel, padding=kernel // 2, padding_mode=mode)
        self.layers = nn.Sequential(
            NORMS[config.normalised](inputs),
            conv(inputs, outputs),
            NORMS[config.normalised](outputs),
            conv(outputs, outputs),
        )
        self.skip = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Float[Tensor, "batch inputs length"]) -> Float[Tensor, "batch outputs length"]:
        return self.layers(x) + self.skip(x)


def _level(inputs: int, outputs: int, config: SignalConfig) -> list[nn.Module]:
    return [_Block(i, o, config) for i, o in pairwise([inputs] + [outputs] * config.blocks)]


class SignalEncoder(nn.Module):
    """Signals (batch, length, channels) to latent functions: a pointwise stem, then levels of residual blocks and
    mean pools. Signals of another shape than the configuration's raise ValueError."""

    def __init__(self, config: SignalConfig) -> None:
        super().__init__()
        self.config = config
        width = config.channels[0]
        layers: list[nn.Module] = [nn.Conv1d(config.signal_channels, width, config.patch, config.patch)]
        for level, channels in enumerate(config.channels):
            layers += [nn.AvgPool1d(2)] if level else []
            layers += _level(width, channels, config)
            width = channels
        self.layers = nn.Sequential(
            *layers, NORMS[config.normalised](width), nn.Conv1d(width, config.latent_channels, 1)
        )

    def forward(self, x: Float[Tensor, "batch length channel"]) -> Float[Tensor, "batch point latent"]:
        expected = (self.config.length, self.config.signal_channels)
        if tuple(x.shape[1:]) != expected:
            raise ValueError(f"this encoder takes signals (batch, {expected}), got {tuple(x.shape)}")
        return self.layers(x.mT).mT


class SignalDecoder(nn.Module):
    """Latent functions to signals: the encoder's levels in reverse, with nearest-neighbour unpools."""

    def __init__(self, config: SignalConfig) -> None:
        super().__init__()
        self.config = config
        width = config.latent_channels
        layers: list[nn.Module] = []
        for level, channels in enumerate(reversed(config.channels)):
            layers += [Unpool()] if level else []
            layers += _level(width, channels, config)
            width = channels
        last = nn.ConvTranspose1d(width, config.signal_channels, config.patch, config.patch)
        self.layers = nn.Sequential(*layers, NORMS[config.normalised](width), last)

    def forward(self, z: Float[Tensor, "batch point latent"]) -> Float[Tensor, "batch length channel"]:
        if z.shape[1] != self.config.points:
            raise ValueError(f"this decoder takes {self.config.points} points, got {z.shape[1]}")
        return self.layers(z.mT).mT

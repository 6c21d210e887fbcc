"""Encoder and decoder of signals: one-dimensional convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from niso.config import require
from niso.networks.levels import LevelsConfig, decoder_levels, encoder_levels


@dataclass(frozen=True)
class SignalConfig(LevelsConfig):
    """Size of `SignalEncoder` and `SignalDecoder`."""

    length: int = 64
    """Samples of a signal; divisible by the stride."""
    signal_channels: int = 1
    """Channels of the signals."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "length", "signal_channels", positive=True)
        self.check_sides("signals", self.length)

    @property
    def points(self) -> int:
        """Number N of latent points."""
        return self.length // self.stride


class SignalEncoder(nn.Module):
    """Signals (batch, length, channels) to latent functions. Signals of another shape than the configuration's raise
    ValueError."""

    def __init__(self, config: SignalConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = encoder_levels(config, config.signal_channels, 1)

    def forward(self, x: Float[Tensor, "batch length channel"]) -> Float[Tensor, "batch point latent"]:
        expected = (self.config.length, self.config.signal_channels)
        if tuple(x.shape[1:]) != expected:
            raise ValueError(f"this encoder takes signals (batch, {expected}), got {tuple(x.shape)}")
        return self.layers(x.mT).mT


class SignalDecoder(nn.Module):
    """Latent functions to signals."""

    def __init__(self, config: SignalConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = decoder_levels(config, config.signal_channels, 1)

    def forward(self, z: Float[Tensor, "batch point latent"]) -> Float[Tensor, "batch length channel"]:
        if z.shape[1] != self.config.points:
            raise ValueError(f"this decoder takes {self.config.points} points, got {z.shape[1]}")
        return self.layers(z.mT).mT

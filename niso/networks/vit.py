"""A vision transformer as encoder and decoder: images to latent functions on patches, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.config import require
from niso.networks.images import ImageConfig
from niso.networks.linear import Linear


@dataclass(frozen=True)
class ViTConfig(ImageConfig):
    """Size of `ViTEncoder` and `ViTDecoder`; a latent point is a patch."""

    patch: int = 4
    """Side of a patch in pixels."""
    channels: int = 256
    """Width of the tokens."""
    blocks: int = 4
    """Transformer blocks in the encoder, and as many in the decoder."""
    heads: int = 8
    """Attention heads; they share the width evenly."""
    latent_channels: int = 32
    """Channels d of the latent functions."""

    def __post_init__(self) -> None:
        require(self, "patch", "channels", "heads", "latent_channels", positive=True)
        require(self, "blocks")
        if self.channels % self.heads:
            raise ValueError(f"channels ({self.channels}) must be divisible by heads ({self.heads})")
        self.check_size(f"patch ({self.patch})")

    @property
    def stride(self) -> int:
        """Pixels per latent point along each axis."""
        return self.patch


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = Linear(channels, 3 * channels)
        self.output = Linear(channels, channels)

    def forward(self, x: Float[Tensor, "batch token channel"]) -> Float[Tensor, "batch token channel"]:
        split = self.query_key_value(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()  # each (batch, heads, tokens, channels / heads)
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.output(attended.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Pre-norm transformer block: x + attention(norm x), then x + MLP(norm x); GELU, four times the width inside."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels, eps=1e-6)
        self.attention = Attention(channels, heads)
        self.norm2 = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = nn.Sequential(Linear(channels, 4 * channels), nn.GELU(), Linear(4 * channels, channels))

    def forward(self, x: Float[Tensor, "batch token channel"]) -> Float[Tensor, "batch token channel"]:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def initialise_transformer(network: nn.Module) -> None:
    """The usual start of vision transformers: weights N(0, 0.02²) cut at two deviations, biases 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.trunc_normal_(layer.weight, std=0.02, a=-0.04, b=0.04)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class PatchEmbedding(nn.Module):
    """Images to tokens: each patch by one linear map (a strided convolution), plus a learned embedding of its place.

    Images of another size than the configuration's raise ValueError.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.patches = nn.Conv2d(config.image_channels, config.channels, config.patch, stride=config.patch)
        self.position = nn.Parameter(0.02 * torch.randn(config.points, config.channels))

    def forward(self, image: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch point token"]:
        self.config.check_images(image)
        return self.patches(image).flatten(2).mT + self.position


def tokens(config: ViTConfig) -> nn.Sequential:
    """Images to tokens: patch embedding, transformer blocks, norm."""
    blocks = (TransformerBlock(config.channels, config.heads) for _ in range(config.blocks))
    network = nn.Sequential(PatchEmbedding(config), *blocks, nn.LayerNorm(config.channels, eps=1e-6))
    initialise_transformer(network)
    return network


class ViTEncoder(nn.Module):
    """Images to latent functions: `tokens` and a linear map to the latents."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = tokens(config)
        self.output = Linear(config.channels, config.latent_channels)  # torch's start: latents of order one

    def forward(self, image: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch point latent"]:
        return self.output(self.layers(image))


class ViTDecoder(nn.Module):
    """Latent functions to images: a linear map and place embedding, transformer blocks, norm, pixels of each patch.

    Another number of points than the configuration's raises ValueError.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.position = nn.Parameter(0.02 * torch.randn(config.points, config.channels))
        self.layers = nn.Sequential(
            *(TransformerBlock(config.channels, config.heads) for _ in range(config.blocks)),
            nn.LayerNorm(config.channels, eps=1e-6),
            Linear(config.channels, config.image_channels * config.patch**2),
        )
        initialise_transformer(self)
        self.input = Linear(config.latent_channels, config.channels)

    def forward(self, latent: Float[Tensor, "batch point latent"]) -> Float[Tensor, "batch channel height width"]:
        config = self.config
        if latent.shape[1] != config.points:
            raise ValueError(f"this decoder takes {config.points} points, got {latent.shape[1]}")
        pixels = self.layers(self.input(latent) + self.position)
        patches = pixels.unflatten(-1, (config.image_channels, config.patch, config.patch))
        return patches.unflatten(1, config.grid).permute(0, 3, 1, 4, 2, 5).flatten(2, 3).flatten(3, 4)

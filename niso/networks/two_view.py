"""A transformer on the tokens of two views, the pose experiment's baseline (paper appendix, after CroCo and DUSt3R)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.config import Strict, require
from niso.networks.linear import Linear
from niso.networks.vit import TransformerBlock, ViTConfig, initialise_transformer, tokens


@dataclass(frozen=True)
class TwoViewConfig(Strict):
    """Size of a `TwoViewTransformer`. The defaults are the paper's."""

    patch: int = 16
    """Side of a patch in pixels."""
    channels: int = 512
    """Width of the tokens."""
    heads: int = 16
    """Attention heads; they share the width evenly."""
    encoder_blocks: int = 12
    """Transformer blocks that see one view."""
    decoder_blocks: int = 12
    """Transformer blocks that see both."""

    def __post_init__(self) -> None:
        require(self, "patch", "decoder_blocks", positive=True)
        self.view((self.patch, self.patch))

    def view(self, image_size: tuple[int, int], image_channels: int = 3) -> ViTConfig:
        """The encoder of one view of this size; ValueError where it is not divisible by `patch`."""
        return ViTConfig(image_size, image_channels, self.patch, self.channels, self.encoder_blocks, self.heads)


class TwoViewDecoder(nn.Module):
    """Tokens of two views to a vector: both and a learned token in one sequence, whose token is read out.

    A learned embedding tells the views apart: their order matters, and attention does not see it.

    Args:
        channels, blocks, heads: of the transformer.
        outputs: numbers given for each pair.
        inputs: channels of the tokens where they are not `channels`, which a linear map then takes them to.
    """

    def __init__(self, channels: int, blocks: int, heads: int, outputs: int, inputs: int | None = None) -> None:
        super().__init__()
        self.views = nn.Parameter(0.02 * torch.randn(2, channels))
        self.token = nn.Parameter(0.02 * torch.randn(channels))
        self.input = nn.Identity() if inputs is None else Linear(inputs, channels)
        self.blocks = nn.Sequential(*(TransformerBlock(channels, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.output = Linear(channels, outputs)
        initialise_transformer(self)

    def forward(
        self, first: Float[Tensor, "batch point inputs"], second: Float[Tensor, "batch point inputs"]
    ) -> Float[Tensor, "batch output"]:
        views = [self.input(view) + place for view, place in zip((first, second), self.views, strict=True)]
        token = self.token.expand(len(first), 1, -1)
        return self.output(self.norm(self.blocks(torch.cat([token, *views], dim=1))[:, 0]))


class TwoViewTransformer(nn.Module):
    """Two images to a vector: each by the same transformer on patches, then both by a `TwoViewDecoder`.

    Args:
        image_size: height and width of the images; ValueError where they are not divisible by the patches'.
        outputs: numbers given for each pair.

    Source: paper appendix, "Baselines": patches of 16 pixels, 12 and 12 blocks of 512 channels and 16 heads.
    """

    def __init__(self, config: TwoViewConfig, image_size: tuple[int, int], outputs: int) -> None:
        super().__init__()
        self.config = config
        self.encoder = tokens(config.view(image_size))
        self.decoder = TwoViewDecoder(config.channels, config.decoder_blocks, config.heads, outputs)

    def forward(
        self,
        first: Float[Tensor, "batch channel height width"],
        second: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch output"]:
        return self.decoder(*self.encoder(torch.cat([first, second])).split([len(first), len(second)]))

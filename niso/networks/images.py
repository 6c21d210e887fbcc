"""What configurations of encoders and decoders of images share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from niso.config import Strict, require


@dataclass(frozen=True)
class ImageConfig(Strict, ABC):
    """Base of configurations whose latent points form a grid, `stride` pixels apart."""

    image_size: tuple[int, int] = (40, 40)
    """Height and width of the images in pixels; each divisible by the stride of the latent grid."""
    image_channels: int = 1
    """Channels of the images."""

    @property
    @abstractmethod
    def stride(self) -> int:
        """Pixels per latent point along each axis."""

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the latent grid."""
        return self.image_size[0] // self.stride, self.image_size[1] // self.stride

    @property
    def points(self) -> int:
        """Number N of latent points, row by row."""
        return self.grid[0] * self.grid[1]

    def check_size(self, divisor: str) -> None:
        """ValueError where the images' size is not a multiple of the stride, which the message calls `divisor`."""
        require(self, "image_channels", positive=True)
        if len(self.image_size) != 2 or any(side < 1 or side % self.stride for side in self.image_size):
            raise ValueError(f"image_size must be a height and a width divisible by {divisor}, got {self.image_size}")

    def check_images(self, image: Float[Tensor, "batch channel height width"]) -> None:
        """ValueError where images are of another size."""
        expected = (self.image_channels, *self.image_size)
        if tuple(image.shape[1:]) != expected:
            raise ValueError(f"this encoder takes images (batch, {expected}), got {tuple(image.shape)}")

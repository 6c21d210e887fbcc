"""Maps of prepared shapes as networks take them: on the training device, or read from the disk batch by batch."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Float16, Int
from torch import Tensor

from niso.cache import cached
from niso.data.evenly import evenly
from niso.data.shapes.embedded import KIND, embedded_shapes
from niso.data.shapes.family import PLANS
from niso.data.shapes.prepared import PreparedShapes, flat_channels, resolved_by_float16, statistics
from niso.data.workers import cores
from niso.errors import InputError
from niso.experiments.shapes.presets import ShapesConfig
from niso.training.progress import counting, preparing

RESERVE = 2
"""Shapes of each embedded class that may be refused."""
SOME = 64
"""Shapes whose maps tell what values lie between."""


def embedded(config: ShapesConfig) -> PreparedShapes:
    """The shapes that niso makes itself, prepared when they are first asked for, and kept in the user's cache.

    Raises:
        InputError: the cache cannot be written to.
    """
    count = config.train_shapes + config.test_shapes + RESERVE
    total = len(PLANS) * count
    with preparing(cached(KIND), "shapes") as show:

        def made(shapes: int) -> None:
            show("make", shapes, total)
            if shapes == total:
                show("prepare", 0, total)

        sizes = config.preparation, count, config.vertices
        return embedded_shapes(*sizes, workers=cores(), report=counting(show, total), made=made)


class ShapeMaps:
    """Heat kernel signatures, clipped to mean ± `clip` standard deviations of each channel and scaled to [−1, 1].

    Args:
        members: the shapes, those to train on, that mean and deviation are taken over.
        gigabytes: maps of all shapes up to this size are kept on the device, in half precision as they are stored;
            larger ones are read from the folder when they are asked for.

    Attributes:
        flat: which channels float16 does not tell the values of apart, in words: they are scaled to nearly 0.

    Raises:
        InputError: a value that is not finite, or all channels are flat.
    """

    def __init__(
        self,
        shapes: PreparedShapes,
        members: Int[Tensor, " members"],
        clip: float,
        gigabytes: float,
        device: torch.device,
    ) -> None:
        self.shapes, self.device = shapes, device
        mean, deviation = statistics(shapes, members)
        resolved = resolved_by_float16(mean, deviation)
        self.flat = flat_channels(resolved)
        if not resolved.any():
            raise InputError(f"{shapes.folder}: the signatures of the shapes to train on have one value everywhere")
        scale = (clip * deviation.float()).where(resolved, 1.0)
        self.mean, self.range = (part.float().to(device)[:, None, None] for part in (mean, scale))
        size = (len(shapes.names), shapes.variants, shapes.channels, shapes.height, shapes.width)
        self.resident: Tensor | None = None
        if 2 * math.prod(size) <= gigabytes * 1e9:
            self.resident = torch.empty(size, dtype=torch.float16, device=device)
            for shape, kept in enumerate(self.resident):  # one by one: no second copy of all
                kept.copy_(self._checked(torch.from_numpy(np.array(shapes.maps(shape)))))

    def read(
        self, shape: Int[Tensor, " batch"], variant: Int[Tensor, " batch"]
    ) -> Float16[Tensor, "batch channels height width"]:
        """Maps as they are stored: on the device where they are kept there, else in (pinned) memory of the CPU.

        Raises:
            InputError: a value that is not finite, or a damaged file.
        """
        if self.resident is not None:
            shape, variant = (part.to(self.device, non_blocking=True) for part in (shape, variant))
            return self.resident[shape, variant]
        pairs = zip(shape.tolist(), variant.tolist(), strict=True)
        maps = self._checked(torch.from_numpy(np.stack([self.shapes.maps(s)[v] for s, v in pairs])))
        return maps.pin_memory() if self.device.type == "cuda" else maps

    def scaled(
        self, maps: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels height width"]:
        """Stored maps, or values of signatures elsewhere, as networks take them, on the device."""
        maps = maps.to(self.device, non_blocking=True).float()
        return ((maps - self.mean) / self.range).clamp(-1, 1)

    def extremes(self, members: Int[Tensor, " members"]) -> tuple[float, float]:
        """Smallest and largest value, before scaling, of the base maps of these shapes, or of some spread over them."""
        few = members[evenly(SOME, len(members))]
        low, high = self.read(few, torch.zeros_like(few)).float().aminmax()
        return low.item(), high.item()

    def __call__(
        self, shape: Int[Tensor, " batch"], variant: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch channels height width"]:
        """Maps of given shapes and variants."""
        return self.scaled(self.read(shape, variant))

    def _checked(self, maps: Tensor) -> Tensor:
        if not maps.isfinite().all():
            raise InputError(f"{self.shapes.folder} has maps with values that are not finite: prepare it again")
        return maps

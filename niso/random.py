"""Random numbers that do not depend on how many processes share the work, nor on where a run was interrupted.

The training loop reseeds torch's generators at every step from (seed, step). A number for each example is drawn for
the whole global batch, of which each process keeps its part.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from niso import collective

EVALUATION_SEED = 20_241_210
"""Of held-out pairs and splits, the same for every run (the paper's conference date)."""


def step_seed(seed: int, step: int, stream: str = "") -> int:
    """A well-mixed 63-bit seed that depends on all arguments (NumPy's SeedSequence)."""
    words = np.random.SeedSequence(seed, spawn_key=(step, *stream.encode())).generate_state(2, np.uint32)
    return int(words[0]) << 31 | int(words[1]) >> 1


def step_generator(seed: int, step: int, stream: str = "") -> torch.Generator:
    """A generator of the CPU, seeded by `step_seed`."""
    return torch.Generator().manual_seed(step_seed(seed, step, stream))


def reseed(seed: int, device: torch.device) -> None:
    """Seed torch's generators of the CPU and of `device`.

    Unlike `torch.manual_seed`, it does not queue a seeding of every accelerator that is not in use, which is slow.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def batch_rand(size: int, device: torch.device | str | None = None) -> Tensor:
    """Uniform numbers in [0, 1) for `size` local examples, the same for any number of processes."""
    return collective.local_part(torch.rand(size * collective.process()[1], device=device))


def distinct(count: int, size: int, group: int) -> Int[Tensor, " size"]:
    """`size` random numbers below `count`, of which `group` consecutive ones differ, `count` at most."""
    drawn = torch.empty(size // group, 0, dtype=torch.long)
    for taken in range(group):
        number = torch.randint(count - taken, (size // group,))  # of those that are left
        for earlier in drawn.sort(1).values.unbind(1):
            number = number + (number >= earlier)
        drawn = torch.cat([drawn, number[:, None]], 1)
    return drawn.flatten()

"""A method whose operator is the torus's, and functions under shifts, which its maps fit exactly."""

import torch
from torch import nn

from niso.geometry.domains import torus
from niso.geometry.shifts import Shifts
from niso.methods import METHODS
from niso.methods.config import MethodConfig
from niso.methods.method import Method, Networks
from niso.spectrum import FixedSpectrum

SIZE, CHANNELS = 4, 20
POINTS = SIZE**2
ACTION = Shifts(SIZE)
TRUTH = torus.harmonics(SIZE)


def planted() -> FixedSpectrum:
    """The torus's harmonics in any order, with eigenvalues far apart between its eigenspaces."""
    order = torch.randperm(POINTS, generator=torch.Generator().manual_seed(0))
    functions, values = TRUTH.functions[:, order], 20.0 * TRUTH.spaces[order]
    return FixedSpectrum(torch.ones(POINTS), functions.float(), values.float())


def make(name: str = "niso") -> Method:
    torch.manual_seed(0)
    method = METHODS.find(name)(
        MethodConfig(rank=POINTS), Networks(nn.Identity(), nn.Identity(), (SIZE, SIZE), CHANNELS)
    )
    if method.spectrum() is not None:
        method.model.spectrum = planted()
    return method


def batches(*sizes: int, others: bool = True, seed: int = 0, wrong: bool = False):
    """Batches of functions under random shifts, and others under the same shifts, or under `wrong` ones."""
    generator = torch.Generator().manual_seed(seed)
    for size in sizes:
        x, other = torch.randn(2, size, POINTS, CHANNELS, generator=generator)
        t = ACTION.sample(size, generator)
        another = ACTION.compose(t, torch.ones_like(t)) if wrong else t
        extra = (other, ACTION.act(other, another)) if others else ()
        yield x, ACTION.act(x, t), *extra

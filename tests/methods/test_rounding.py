"""The precision in which frozen networks run."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from niso.methods import METHODS
from niso.methods.config import MethodConfig
from niso.methods.method import Method, Networks
from niso.methods.rounding import ROUNDED, rounding_error

SIZE, CHANNELS = 4, 6


class Alike(nn.Module):
    """Latents of observations that differ by a share of what they have in common."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.linear, self.share = nn.Linear(CHANNELS, CHANNELS), share
        nn.init.normal_(self.linear.weight)
        nn.init.normal_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.share * x)


def make(share: float, half: bool = True) -> Method:
    torch.manual_seed(0)
    method = METHODS.find("niso")(MethodConfig(rank=8), Networks(Alike(share), nn.Identity(), (SIZE, SIZE), CHANNELS))
    method.precision = (lambda: torch.autocast("cpu", torch.bfloat16)) if half else nullcontext
    return method


def observations(count: int = 32) -> torch.Tensor:
    return torch.randn(count, SIZE**2, CHANNELS, generator=torch.Generator().manual_seed(1))


def test_what_half_precision_rounds_away_is_read_in_full(capsys):
    x = observations()
    alike, exact = make(share=1e-3), make(share=1e-3, half=False).head_features(x)
    assert not torch.equal(alike.head_features(x), exact)
    alike.read_finely(x)
    with torch.autocast("cpu", torch.bfloat16):  # as the training loop calls it
        torch.testing.assert_close(alike.head_features(x), exact)
    assert "networks run in float32 from here" in capsys.readouterr().err
    assert alike.invariants_rounding >= ROUNDED


def test_what_half_precision_keeps_is_read_in_it(capsys):
    x, method = observations(), make(share=1.0)
    before = method.head_features(x)
    method.read_finely(x)
    assert torch.equal(method.head_features(x), before)
    assert not torch.equal(before, make(share=1.0, half=False).head_features(x))
    assert capsys.readouterr().err == ""
    assert 0 < method.invariants_rounding < ROUNDED


def test_full_precision_stays(capsys):
    x, method = observations(), make(share=1e-3, half=False)
    method.read_finely(x)
    assert method.precision is nullcontext and capsys.readouterr().err == ""


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_error_is_of_what_varies(dtype, scale):
    generator = torch.Generator().manual_seed(0)
    common, own = torch.randn(1, 5, 4, generator=generator), torch.randn(64, 5, 4, generator=generator)
    errors = []
    for share in (1.0, 1e-1, 1e-2, 1e-3):
        a = scale * (common + share * own).to(dtype)
        errors.append(rounding_error(a, a.bfloat16().to(dtype)))
        assert rounding_error(a, a) == 0
    assert errors == sorted(errors) and errors[0] < ROUNDED < errors[-1]


def test_nothing_that_varies_is_nothing_to_lose():
    a = torch.ones(8, 5, 4)
    assert math.isnan(rounding_error(a, a))
    method = make(share=0.0)
    precision = method.precision
    method.read_finely(observations())
    assert method.precision is precision and method.invariants_rounding is None


def test_observations_without_latents_do_not_hide_the_others():
    a = torch.randn(8, 5, 4, generator=torch.Generator().manual_seed(0))
    a[0] = 0
    assert 0 < rounding_error(a, a.bfloat16().float()) < ROUNDED


def test_observations_count_alike_for_the_rounding_error_whatever_their_size(dtype):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(16, 5, 4, generator=generator).to(dtype)
    sized = a * 2.0 ** torch.randint(-4, 5, (16, 1, 1), generator=generator)  # powers of two are not rounded
    error, same = (rounding_error(x, x.bfloat16().to(dtype)) for x in (a, sized))
    assert same == pytest.approx(error, rel=1e-3)

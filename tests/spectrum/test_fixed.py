"""A given spectrum is used as it is, and one that is none is refused."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

import niso
from niso.geometry.domains import torus
from niso.geometry.shifts import Shifts
from niso.spectrum import FixedSpectrum
from niso.training.optimizer import spectra

TRUTH = torus.harmonics(4)
MASS = torch.ones(16).double()


def test_maps_of_a_given_spectrum_are_isometries_that_recover_the_shift():
    spectrum = FixedSpectrum(MASS, TRUTH.functions, TRUTH.eigenvalues)
    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), spectrum, mask="exact")
    x = torch.randn(3, 16, 20).double()
    tx = Shifts(4).act(x, torch.tensor([[1, 2], [0, 3], [2, 2]]))
    tau = model.map_between(x, tx)
    torch.testing.assert_close(tau @ model.encode(x), model.encode(tx))
    assert not list(spectrum.parameters()) and spectrum.roles() == {} and spectra(model) == [spectrum]
    assert (spectrum.points, spectrum.rank) == (16, 16) and repr(spectrum) == "FixedSpectrum(points=16, rank=16)"


def test_state_survives_saving():
    spectrum = FixedSpectrum(MASS, TRUTH.functions, TRUTH.eigenvalues)
    other = FixedSpectrum(2 * MASS, TRUTH.functions / 2**0.5, 0 * TRUTH.eigenvalues)
    other.load_state_dict(spectrum.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(spectrum(), other(), strict=True))


def test_rounding_below_zero_is_zero_and_the_tensors_of_the_caller_are_copied():
    parts = [MASS.clone(), TRUTH.functions.clone(), TRUTH.eigenvalues.clone()]
    parts[2][0] = -1e-7 * parts[2].max()
    spectrum = FixedSpectrum(*parts)
    for part in parts:
        part.fill_(torch.nan)
    for part, given in zip(spectrum(), (MASS, TRUTH.functions, TRUTH.eigenvalues), strict=True):
        assert torch.equal(part, given)


@pytest.mark.parametrize(
    "mass, functions, values, message",
    [
        (MASS[:3], TRUTH.functions, TRUTH.eigenvalues, "eigenfunctions"),
        (MASS, TRUTH.functions, -TRUTH.eigenvalues, "eigenvalues must not be negative"),
        (-MASS, TRUTH.functions, TRUTH.eigenvalues, "positive and finite at every point"),
        (2 * MASS, TRUTH.functions, TRUTH.eigenvalues, "M-orthonormal, but ΦᵀMΦ differs from I by 1"),
        (1.01 * MASS, TRUTH.functions, TRUTH.eigenvalues, "M-orthonormal, but ΦᵀMΦ differs from I by 0.01"),
        (MASS, TRUTH.functions, TRUTH.eigenvalues * torch.nan, "must be finite"),
    ],
)
def test_what_is_no_spectrum_is_refused(mass, functions, values, message):
    with pytest.raises((ValueError, TypeCheckError), match=message):
        FixedSpectrum(mass, functions, values)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_in_half_precision_it_stays_as_it_was(half):
    eigenvalues = torch.tensor([0.0, 600.0, 601.0, 602.0])
    spectrum = FixedSpectrum(torch.ones(16), TRUTH.functions[:, :4].float(), eigenvalues)
    before = spectrum()
    for model in (spectrum.to(half), nn.ModuleList([spectrum]).to(half)[0]):
        assert all(torch.equal(a, b) for a, b in zip(model(), before, strict=True))
    wide, given = (
        spectrum.double()(),
        FixedSpectrum(*(part.to(half) for part in (torch.ones(4), torch.eye(4), eigenvalues))),
    )
    assert {part.dtype for part in wide} == {torch.float64} and {part.dtype for part in given()} == {torch.float32}

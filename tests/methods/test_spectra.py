"""Every parametrisation of the spectrum in the registry: what it makes is one. A new one is tested by these, too."""

from dataclasses import fields, replace

import pytest
import torch

from niso.geometry.domains.domain import box
from niso.methods.config import IsometryConfig
from niso.methods.spectra import SPECTRA
from niso.spectrum import SpectrumModule
from niso.testing import relative_error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SPECTRA)
def test_a_spectrum_is_of_the_latent_points_and_orthonormal(name, dtype):
    made = SPECTRA.find(name).make(IsometryConfig(spectrum=name), box, (3, 4), 5).to(dtype)
    assert isinstance(made, SpectrumModule) and (made.points, made.rank) == (12, 5)
    mass, functions, eigenvalues = made()
    assert functions.dtype == dtype and (mass > 0).all() and (eigenvalues >= 0).all()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert relative_error(functions.mT @ (mass[:, None] * functions), torch.eye(5, dtype=dtype)) < tolerance


@pytest.mark.parametrize("name", SPECTRA)
def test_settings_that_are_not_read_are_settings_and_those_of_the_others(name):
    config = IsometryConfig(spectrum=name)
    names = {field.name for field in fields(config)}
    unread, reads = config.spectrum_unread(), SPECTRA.find(name).reads
    assert reads <= names and {path.partition(".")[0] for path in unread} <= names and reads.isdisjoint(unread)
    for other in set(SPECTRA) - {name}:
        assert all(setting in reads or setting in unread for setting in SPECTRA.find(other).reads)


def test_an_unknown_spectrum_is_refused():
    with pytest.raises(ValueError, match='spectrum must be "table" or "field", not \'none\''):
        replace(IsometryConfig(), spectrum="none")

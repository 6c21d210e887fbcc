"""Every parametrisation of the spectrum in the registry: what it makes is one. A new one is tested by these, too."""

from dataclasses import fields, replace
from typing import get_args

import pytest
import torch

from niso.geometry.domains.domain import box, quadrature_sphere
from niso.methods.config import FieldConfig, IsometryConfig, Start
from niso.methods.part import parts_unread
from niso.methods.spectra import SPECTRA
from niso.spectrum import Eigenfunctions, Eigenvalues, SpectrumModule, smooth_functions
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
    unread, reads = parts_unread("spectrum", SPECTRA.found(), config.spectrum, config), SPECTRA.find(name).reads
    assert reads <= names and {path.partition(".")[0] for path in unread} <= names and reads.isdisjoint(unread)
    for other in set(SPECTRA) - {name}:
        assert all(setting in reads or setting in unread for setting in SPECTRA.find(other).reads)


def test_an_unknown_spectrum_is_refused():
    with pytest.raises(ValueError, match='spectrum must be "table" or "field", not \'none\''):
        replace(IsometryConfig(), spectrum="none")


CHANGES = {"features": "periodic", "frequencies": 5, "scale": 0.7, "width": 9, "layers": 1, "gain": 3.0}


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("features", ["coordinates", "fourier", "periodic"])
def test_a_setting_of_a_field_that_is_not_read_changes_nothing_and_any_other_does(features, layers):
    config = IsometryConfig(spectrum="field", field=FieldConfig(features, frequencies=8, layers=layers))
    unread = {
        path.partition(".")[2]
        for path in parts_unread("spectrum", SPECTRA.found(), config.spectrum, config)
        if path.startswith("field.")
    }

    def made(config):
        torch.manual_seed(0)
        return SPECTRA.find("field").make(config, box, (5, 5), 3)().eigenfunctions

    before = made(config)
    for name, value in CHANGES.items():
        if getattr(config.field, name) != value:
            after = made(replace(config, field=replace(config.field, **{name: value})))
            assert torch.equal(after, before) == (name in unread), name


@pytest.mark.parametrize("eigenfunctions", get_args(Eigenfunctions))
@pytest.mark.parametrize("eigenvalues", get_args(Eigenvalues))
@pytest.mark.parametrize("name", SPECTRA)
def test_parametrisations_and_damping_are_those_of_the_settings(name, eigenvalues, eigenfunctions):
    config = IsometryConfig(spectrum=name, eigenvalues=eigenvalues, eigenfunctions=eigenfunctions, damping=0.5)
    made = SPECTRA.find(name).make(config, box, (3, 4), 5)
    assert (made.eigenvalue_kind, made.eigenfunction_kind) == (eigenvalues, eigenfunctions)
    assert made().eigenfunctions.dtype == torch.get_default_dtype()
    assert name != "table" or made.damping == 0.5


def test_a_field_starts_with_the_areas_of_its_points():
    made = SPECTRA.find("field").make(IsometryConfig(spectrum="field"), quadrature_sphere, (6, 6), 5)
    weights = quadrature_sphere(6, 6).weights.float()
    assert weights.std() > 0.1
    torch.testing.assert_close(made().mass, weights)


@pytest.mark.parametrize("start", get_args(Start))
def test_a_table_starts_with_smooth_functions_where_it_is_told_to(start):
    functions = SPECTRA.find("table").make(IsometryConfig(start=start), box, (3, 5), 4)().eigenfunctions
    smooth = smooth_functions(box(3, 5).points, 4).to(functions)
    inside = torch.linalg.svdvals(torch.linalg.qr(smooth).Q.mT @ torch.linalg.qr(functions).Q)
    assert (inside > 0.999).all() == (start == "smooth")

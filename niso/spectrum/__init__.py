"""Spectra (M, Φ, Λ) of operators Ω = Φ Λ Φᵀ M on latent functions: learned as tables or fields, or given."""

from niso.spectrum.eigenvalues import Eigenvalues
from niso.spectrum.features import Features
from niso.spectrum.field import FieldSpectrum
from niso.spectrum.fixed import FixedSpectrum
from niso.spectrum.module import Role, SpectrumModule
from niso.spectrum.rotation import Eigenfunctions
from niso.spectrum.smooth import smooth_functions
from niso.spectrum.spectrum import Spectrum
from niso.spectrum.table import LearnedSpectrum

__all__ = [
    "Eigenfunctions",
    "Eigenvalues",
    "Features",
    "FieldSpectrum",
    "FixedSpectrum",
    "LearnedSpectrum",
    "Role",
    "Spectrum",
    "SpectrumModule",
    "smooth_functions",
]

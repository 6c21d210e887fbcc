"""Neural Isometries for PyTorch: latent functions related by isometries of a learned operator.

>>> import niso
>>> spectrum = niso.LearnedSpectrum(points=100, rank=32)
>>> model = niso.NeuralIsometry(encoder, decoder, spectrum)     # any encoder and decoder
>>> model(x, tx).loss(equivariance=0.5, multiplicity=0.1).backward()
"""

from niso import losses, metrics, testing
from niso.functional_map import (
    cross_covariance,
    exact_isometric_map,
    isometric_map,
    isometric_map_from_covariance,
    least_squares_map,
    multiplicity_mask,
)
from niso.linalg import polar
from niso.model import IsometryOutput, NeuralIsometry, SpectralDropout
from niso.networks import on_grid
from niso.spectrum import LearnedSpectrum, Spectrum

__version__ = "0.1.0"

__all__ = [
    "IsometryOutput",
    "LearnedSpectrum",
    "NeuralIsometry",
    "SpectralDropout",
    "Spectrum",
    "cross_covariance",
    "exact_isometric_map",
    "isometric_map",
    "isometric_map_from_covariance",
    "least_squares_map",
    "losses",
    "metrics",
    "multiplicity_mask",
    "on_grid",
    "polar",
    "testing",
]

"""Neural Isometries for PyTorch: latent functions related by isometries of a learned operator.

>>> import niso
>>> spectrum = niso.LearnedSpectrum(points=100, rank=32)
>>> model = niso.NeuralIsometry(encoder, decoder, spectrum)     # any encoder and decoder
>>> model(x, tx).loss(equivariance=0.5, multiplicity=0.1).backward()

Names are imported when first used, so that the command line can set up torch's threads before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from niso import losses, metrics, testing
    from niso.config import Optimisation
    from niso.dropout import SpectralDropout
    from niso.fitted import Fitted
    from niso.fitting import fit
    from niso.functional_map import (
        commuting_map,
        cross_covariance,
        exact_isometric_map,
        isometric_map,
        isometric_map_from_covariance,
        least_squares_map,
        multiplicity_mask,
    )
    from niso.linalg import inverse_root, logarithm, polar
    from niso.loading import load
    from niso.model import IsometryOutput, NeuralIsometry
    from niso.networks import on_grid
    from niso.objective import IsometryObjective
    from niso.spectrum import FieldSpectrum, FixedSpectrum, LearnedSpectrum, Spectrum
    from niso.training.optimizer import make_optimizer, set_learning_rates
    from niso.version import __version__ as __version__

__all__ = [
    "FieldSpectrum",
    "Fitted",
    "FixedSpectrum",
    "IsometryObjective",
    "IsometryOutput",
    "LearnedSpectrum",
    "NeuralIsometry",
    "Optimisation",
    "SpectralDropout",
    "Spectrum",
    "commuting_map",
    "cross_covariance",
    "exact_isometric_map",
    "fit",
    "inverse_root",
    "isometric_map",
    "isometric_map_from_covariance",
    "least_squares_map",
    "load",
    "logarithm",
    "losses",
    "make_optimizer",
    "metrics",
    "multiplicity_mask",
    "on_grid",
    "polar",
    "set_learning_rates",
    "testing",
]

_HOMES = {
    "config": ("Optimisation",),
    "dropout": ("SpectralDropout",),
    "fitted": ("Fitted",),
    "fitting": ("fit",),
    "functional_map": (
        "commuting_map",
        "cross_covariance",
        "exact_isometric_map",
        "isometric_map",
        "isometric_map_from_covariance",
        "least_squares_map",
        "multiplicity_mask",
    ),
    "linalg": ("inverse_root", "logarithm", "polar"),
    "loading": ("load",),
    "model": ("IsometryOutput", "NeuralIsometry"),
    "networks": ("on_grid",),
    "objective": ("IsometryObjective",),
    "spectrum": ("FieldSpectrum", "FixedSpectrum", "LearnedSpectrum", "Spectrum"),
    "training.optimizer": ("make_optimizer", "set_learning_rates"),
    "version": ("__version__",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(import_module(f"niso.{_HOME[name]}"), name)
    elif name in __all__:
        value = import_module(f"niso.{name}")
    else:
        raise AttributeError(f"module 'niso' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

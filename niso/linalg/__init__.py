"""The polar factor and the inverse square root as differentiable primitives.

They give the maps τ_Ω (paper eq. 8) and the eigenfunctions Φ. The logarithm gives powers of maps.
"""

from niso.linalg.inverse_square_root import inverse_root
from niso.linalg.logarithm import logarithm
from niso.linalg.polar_factor import polar
from niso.linalg.precision import autocasts, full_precision, matmul, without_autocast
from niso.linalg.span import orthonormal, span

__all__ = [
    "autocasts",
    "full_precision",
    "inverse_root",
    "logarithm",
    "matmul",
    "orthonormal",
    "polar",
    "span",
    "without_autocast",
]

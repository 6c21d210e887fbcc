"""The polar factor and the inverse square root as differentiable primitives, and the polar factor's naive twin.

They give the maps τ_Ω (paper eq. 8) and the eigenfunctions Φ. The logarithm gives powers of maps.
"""

from niso.linalg.inverse_square_root import inverse_root
from niso.linalg.logarithm import logarithm
from niso.linalg.polar_factor import polar, polar_naive
from niso.linalg.precision import autocasts, full_precision, matmul, without_autocast

__all__ = [
    "autocasts",
    "full_precision",
    "inverse_root",
    "logarithm",
    "matmul",
    "polar",
    "polar_naive",
    "without_autocast",
]

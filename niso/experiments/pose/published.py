"""What the paper reports on CO3Dv2."""

from __future__ import annotations

from niso.geometry.trajectories import SKIPS
from niso.results import Published, of_paper

_PAPER = of_paper("§5.3, a subset of CO3Dv2")


def _entry(name: str, ate: str, method: str, equivariance: str = "") -> Published:
    """A table row: values in the order of skips, separated by commas."""
    keys = {"ate": ate.split(", "), "equivariance_error": equivariance.split(", ") if equivariance else []}
    table = {
        f"{key}_skip{skip}": value for key, values in keys.items() for skip, value in zip(SKIPS, values, strict=False)
    }
    return Published(name, table, _PAPER, method)


PUBLISHED = (
    _entry(
        "NIso",
        "0.023 ± 0.001, 0.031 ± 0.001, 0.044 ± 0.001, 0.057 ± 0.002, 0.071 ± 0.002, 0.081 ± 0.002",
        "niso",
        "0.0525 ± 0.0161, 0.0584 ± 0.0141, 0.0744 ± 0.0143, 0.0823 ± 0.0148, 0.0879 ± 0.0156, 0.0924 ± 0.0167",
    ),
    _entry(
        "NIso without Ω",
        "0.027 ± 0.001, 0.045 ± 0.001, 0.068 ± 0.000, 0.084 ± 0.000, 0.098 ± 0.000, 0.110 ± 0.000",
        "niso-no-basis",
    ),
    _entry("NFT", "0.022 ± 0.003, 0.035 ± 0.002, 0.059 ± 0.001, 0.077 ± 0.001, 0.091 ± 0.001, 0.104 ± 0.001", "nft"),
    _entry(
        "DINOv2", "0.027 ± 0.003, 0.045 ± 0.002, 0.068 ± 0.001, 0.084 ± 0.001, 0.097 ± 0.001, 0.110 ± 0.001", "dinov2"
    ),
    _entry("BeIT", "0.028 ± 0.003, 0.046 ± 0.002, 0.068 ± 0.001, 0.085 ± 0.001, 0.098 ± 0.001, 0.110 ± 0.001", "beit"),
    _entry("ViT", "0.020 ± 0.001, 0.042 ± 0.001, 0.066 ± 0.000, 0.083 ± 0.000, 0.097 ± 0.000, 0.109 ± 0.000", "vit"),
)
"""In the paper's order."""

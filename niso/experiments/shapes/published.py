"""What the paper reports on Conformal SHREC'11, and what it quotes."""

from __future__ import annotations

from niso.results import Published, of_paper

_PAPER = of_paper("§5.2")

PUBLISHED = (
    Published("NIso", {"accuracy": "0.9026 ± 0.0127", "equivariance_error": "0.0591 ± 0.0349"}, _PAPER, "niso"),
    Published("NFT", {"accuracy": "0.8324 ± 0.0203"}, _PAPER, "nft"),
    Published("augmented autoencoder", {"accuracy": "0.6936 ± 0.0281"}, _PAPER, "autoencoder"),
    Published(
        "Möbius convolutions (hand-crafted)",
        {"accuracy": "0.865", "equivariance_error": "0.0264"},
        "Mitchel, Aigerman, Kim and Kazhdan, Möbius Convolutions for Spherical CNNs, SIGGRAPH 2022, as quoted in that "
        "paper",
    ),
)
"""In the paper's order; accuracies as shares, as ours are."""

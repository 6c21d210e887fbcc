"""What the paper and the authors of hand-crafted networks report on homNIST."""

from __future__ import annotations

from niso.results import Published, of_paper

_PAPER = of_paper("§5.1")
_QUOTED = "as quoted in that paper"

PUBLISHED = (
    Published("NIso", {"accuracy": "0.9252 ± 0.0091", "equivariance_error": "0.0406 ± 0.0379"}, _PAPER, "niso"),
    Published("NIso with triplets", {"accuracy": "0.9738 ± 0.0023"}, _PAPER, "niso-triplet"),
    Published("NIso without L_E", {"accuracy": "0.7730 ± 0.0256"}, _PAPER, "niso-no-equivariance"),
    Published("NIso without L_M", {"accuracy": "0.4527 ± 0.0120"}, _PAPER, "niso-no-multiplicity"),
    Published("NFT", {"accuracy": "0.4193 ± 0.0084"}, _PAPER, "nft"),
    Published("NFT with triplets", {"accuracy": "0.6715 ± 0.0110"}, _PAPER, "nft-triplet"),
    Published("augmented autoencoder", {"accuracy": "0.8096 ± 0.0195"}, _PAPER, "autoencoder"),
    Published(
        "homConv (hand-crafted)",
        {"accuracy": "0.9571 ± 0.0009", "equivariance_error": "0.0686"},
        f"MacDonald, Ramasinghe and Lucey, CVPR 2022, {_QUOTED}",
    ),
    Published(
        "LieLAC (hand-crafted)",
        {"accuracy": "0.960"},
        "Shumaylov et al., Lie Algebra Canonicalization, ICLR 2025",
    ),
    Published(
        "LieDecomp (hand-crafted)",
        {"accuracy": "0.9830 ± 0.0010"},
        f"Mironenco and Forré, ICLR 2024, {_QUOTED}",
    ),
)
"""In the paper's order; accuracies as shares, as ours are."""

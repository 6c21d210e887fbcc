"""Methods that experiments compare: NIso in its variants and the paper's baselines, a file and a line here each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.methods.method import Method  # loads torch, which `niso --help` need not wait for


METHODS: Registry[type[Method]] = Registry(
    "method",
    {
        "niso": "niso.methods.isometry.Isometry",
        "niso-triplet": "niso.methods.isometry.Triplets",
        "niso-group": "niso.methods.isometry.Groups",
        "niso-contrastive": "niso.methods.isometry.Contrastive",
        "niso-vicreg": "niso.methods.isometry.Vicreg",
        "niso-group-vicreg": "niso.methods.isometry.VicregGroups",
        "niso-no-equivariance": "niso.methods.isometry.NoEquivariance",
        "niso-no-multiplicity": "niso.methods.isometry.NoMultiplicity",
        "niso-no-operator": "niso.methods.isometry.NoOperator",
        "niso-no-basis": "niso.methods.orthogonal.NoBasis",
        "contrastive": "niso.methods.invariants_alone.ContrastiveAlone",
        "vicreg": "niso.methods.invariants_alone.VicregAlone",
        "nft": "niso.methods.fourier.Fourier",
        "nft-triplet": "niso.methods.fourier.FourierTriplets",
        "autoencoder": "niso.methods.autoencoder.Reconstruction",
    },
    base="niso.methods.method.Method",
    group=__name__,
)


def methods_of(views: int = 2, grouped: bool = False, maps: bool = False) -> tuple[str, ...]:
    """Methods that suit data, in the order of the registry.

    Args:
        views: observations that examples have at most, see `Method.views`.
        grouped: whether several examples can share one T.
        maps: only methods that relate latents by maps.
    """
    return tuple(
        name
        for name, kind in METHODS.found().items()
        if kind.views <= views and (grouped or not kind.grouped) and (kind.has_maps or not maps)
    )

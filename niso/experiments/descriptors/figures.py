"""Figures of operators over descriptors, in the order that a report shows them."""

from __future__ import annotations

from niso import figures
from niso.experiments.descriptors.experiment import DescriptorsResult
from niso.report import Picture

SHOWN, FUNCTIONS = 3, (1, 2, 3)


def eigenfunctions(result: DescriptorsResult) -> Picture:
    """Learned eigenfunctions on surfaces, their partners, and these with another connectivity."""
    shown = result.matched[:SHOWN]
    rows = [
        [
            figures.DrawnMesh(mesh.vertices, mesh.faces, values[:, number], True)
            for number in FUNCTIONS
            for mesh, values in zip(pair.meshes, functions, strict=True)
        ]
        for pair, functions in shown
    ]
    titles = [title for n in FUNCTIONS for title in ("\nsurface", f"eigenfunction {n + 1}\npartner", "\nremeshed")]
    return Picture(
        "eigenfunctions",
        "Learned eigenfunctions as functions of intrinsic descriptors. In threes: a held-out surface, its partner "
        "after a smooth deformation, and the partner with another connectivity. They are alike on all three, and on "
        "both sides of a symmetric body, which descriptors cannot tell apart.",
        figures.mesh_table(rows, titles, [pair.name for pair, _ in shown]),
    )


FIGURES = (eigenfunctions,)

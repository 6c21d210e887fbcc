"""Figures of a sphere result, in the order that its report shows them."""

from __future__ import annotations

from collections.abc import Iterator

from niso import figures
from niso.experiments.laplacian import figures as shared
from niso.experiments.sphere.degrees import ByDegree
from niso.experiments.sphere.experiment import SphereResult
from niso.geometry.domains.domain import quadrature_sphere
from niso.report import Picture
from niso.spectrum import Spectrum

SPACE = "space of one degree"


def eigenfunctions(result: SphereResult) -> Picture:
    """Learned eigenfunctions beside the nearest spherical harmonics."""
    spectrum = result.held_out.spectrum
    nearest = shared.nearest_harmonics(result, result.weights)
    rows, labels = rows_by_eigenvalue(spectrum, result.by)
    columns = [("learned eigenfunctions", spectrum.eigenfunctions), ("nearest true harmonics", nearest)]
    return Picture(
        "eigenfunctions",
        "Learned eigenfunctions, those matched to one degree in a row, the rows in ascending learned eigenvalue "
        "(left: its range). Beside them, their projections on the true spherical harmonics of that degree, on the same "
        "scale: faint where little of a function lies there. Where the two agree, the degree was found; within it the "
        "2ℓ + 1 functions are free to turn.",
        figures.sphere_rows(columns, result.grid, rows, labels, alike=True),
    )


def samplings(result: SphereResult) -> Iterator[Picture]:
    """The eigenfunctions of a field on the grid of the training, and where they were never trained."""
    if not result.readings:
        return
    values = result.held_out.spectrum.eigenvalues
    shown = values.argsort()[[index for index in (1, 5, 10) if index < len(values)]]  # of the degrees 1, 2 and 3
    grid = quadrature_sphere(*result.grid).points, result.held_out.spectrum
    drawn = {f"trained on: {result.grid[0]} × {result.grid[1]}": grid}
    drawn |= {name: (reading.points, reading.spectrum) for name, reading in result.readings.items()}
    yield Picture(
        "samplings",
        "Three eigenfunctions of one operator, learned on the points at the left, and read on others that it has never "
        "seen: a finer grid, Fibonacci points, random points and the vertices of a mesh.",
        figures.point_spheres(
            {title: (points, spectrum.eigenfunctions[:, shown]) for title, (points, spectrum) in drawn.items()},
            [f"λ = {value:.2f}" for value in values[shown]],
        ),
    )


def wigner(result: SphereResult) -> Picture:
    """A map beside the Wigner-D matrix of its rotation."""
    by = result.by
    return Picture(
        "wigner",
        "The map τ_Ω of one held-out pair, and the Wigner-D matrix of the rotation that made the pair. Each degree of "
        "τ_Ω is turned into the basis of the true harmonics by the eigenfunctions alone: the rotation is not used. "
        f"Their cosine, over all pairs, is {by.mean_agreement:.4f}.",
        figures.matrix_pair(by.aligned[0], by.wigner[0], ("learned τ_Ω, aligned", "true Wigner-D")),
    )


def mass(result: SphereResult) -> Picture:
    """The learned mass beside the quadrature weights."""
    learned = result.held_out.spectrum.mass
    return Picture(
        "mass",
        "Learned mass and the weights of the Driscoll–Healy quadrature, the areas that grid points stand for. "
        "Rotations of band-limited functions fix the mass only up to what integrates all their products to "
        "nothing, such as alternating signs from row to row.",
        figures.mass_beside(learned, result.weights, result.grid, ("learned mass", "quadrature weights")),
    )


def degrees(result: SphereResult) -> Picture:
    """How well each degree was found."""
    by = result.by
    return Picture(
        "degrees",
        "What was found of each degree ℓ: energy of its eigenfunctions in the true space, largest principal angle "
        "to it, agreement of the blocks of τ_Ω with the Wigner-D matrices, and error of their traces against the "
        "characters, which needs no alignment.",
        figures.by_degree(
            {
                "energy": (by.energy, 1.0),
                "principal angle (°)": (by.angle, 0.0),
                "Wigner-D agreement": (by.agreement, 1.0),
                "character error": (by.character_error, 0.0),
            },
            by.degrees,
        ),
    )


def rows_by_eigenvalue(spectrum: Spectrum, by: ByDegree) -> tuple[list[list[int]], list[str]]:
    """The eigenfunctions of each degree in ascending eigenvalue, the degrees by their means, and a label for each."""
    groups = []
    for ell in by.degrees.tolist():
        members = (by.spaces == ell).nonzero().flatten()
        ascending = members[spectrum.eigenvalues[members].argsort()]
        values = spectrum.eigenvalues[ascending]
        label = f"ℓ = {ell}\nλ = {values[0]:.1f} … {values[-1]:.1f}"
        groups.append((values.mean().item(), ascending.tolist(), label))
    groups.sort(key=lambda group: group[0])
    return [members for _, members, _ in groups], [label for _, _, label in groups]


FIGURES = (
    eigenfunctions,
    samplings,
    wigner,
    lambda result: shared.first_map(result, SPACE),
    mass,
    degrees,
    lambda result: shared.purity(result, SPACE),
    lambda result: shared.eigenvalues(result, SPACE),
    shared.transport,
    shared.map_errors,
    lambda result: shared.operators(result, "spherical Laplacian"),
)

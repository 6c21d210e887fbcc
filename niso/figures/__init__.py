"""Figures of spectra, maps, images and training: arrays or tensors in, a matplotlib Figure out.

Nothing here touches files, pyplot or global settings. A diverging colour map centred at zero shows signed data (blue
positive, red negative, white zero), a sequential one magnitudes (white zero); both are safe for colour-blind readers.
A figure of several panels is 10 inches wide, which is 1,000 pixels of the report; `style.panels` lays out each by
itself, and a narrow screen shows one below the other. `themes.darken` changes a figure's colours for a dark page.

Importing this loads matplotlib, so import it where a figure is drawn.
"""

from niso.figures.accuracy import accuracy_by_strength
from niso.figures.curves import Band, bands, decay
from niso.figures.functions import cluster_plot, eigenfunction_lines, have_two_sides, point_rows, signal_rows
from niso.figures.maps import kernel_pair, map_before_after, matrix_pair
from niso.figures.meshes import DrawnMesh, mesh_table
from niso.figures.spectra import (
    by_degree,
    eigenfunction_mosaic,
    energy_histogram,
    mass_beside,
    mass_map,
    spectrum_plot,
)
from niso.figures.spheres import point_spheres, sphere_rows
from niso.figures.training import image_rows, training_curves

__all__ = [
    "Band",
    "DrawnMesh",
    "accuracy_by_strength",
    "bands",
    "by_degree",
    "cluster_plot",
    "decay",
    "eigenfunction_lines",
    "eigenfunction_mosaic",
    "energy_histogram",
    "have_two_sides",
    "image_rows",
    "kernel_pair",
    "map_before_after",
    "mass_beside",
    "mass_map",
    "matrix_pair",
    "mesh_table",
    "point_rows",
    "point_spheres",
    "signal_rows",
    "spectrum_plot",
    "sphere_rows",
    "training_curves",
]

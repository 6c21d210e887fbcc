"""Ways in which a method learns its spectrum: a file and a line here each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.methods.spectra.parametrisation import Parametrisation  # loads torch

SPECTRA: Registry[type[Parametrisation]] = Registry(
    "spectrum",
    {
        "table": "niso.methods.spectra.table.Table",
        "field": "niso.methods.spectra.field.Field",
    },
    base="niso.methods.spectra.parametrisation.Parametrisation",
    group=__name__,
)

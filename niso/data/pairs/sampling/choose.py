"""Which pairs a table gives."""

from __future__ import annotations

from pathlib import Path

import torch

from niso.data.pairs.reading import Reading
from niso.data.pairs.sampling.data import PairData
from niso.data.pairs.sampling.frames import NeighbouringFrames
from niso.data.pairs.sampling.recorded import RecordedPairs
from niso.data.pairs.sampling.transformed import TransformedObservations
from niso.data.pairs.split import split
from niso.data.pairs.table import Table
from niso.errors import InputError
from niso.geometry.action import composes
from niso.geometry.make import make_action


def pair_data(table: Table, reading: Reading, validation: float, test: float, device: torch.device) -> PairData:
    """The pairs that a table gives: recorded ones, frames of clips, or those that niso makes itself.

    Args:
        table: the observations.
        reading: what niso applies to single ones, how far frames are apart, and how much is kept in memory.
        validation, test: shares of the observations that are held out.
        device: for the pairs.

    Raises:
        InputError: the table has single observations and no transformation is named, or one is named in vain; first
            views are to be under transformations that cannot be composed; or the table cannot be cut into parts or
            scaled.
    """
    transform, memory, transformed_first = reading.transform, reading.memory, reading.first_view == "transformed"
    recorded = "tx" in table.views or table.clip is not None
    if table.group is not None and not recorded:
        raise InputError(
            f"{table.name}: group numbers the transformations of recorded pairs, and niso draws those of x itself: "
            "leave it out; source numbers what observations are parts of"
        )
    parts = split(table, validation, test, gap=reading.skip)
    if recorded:
        if transform is not None:
            what = "has tx" if "tx" in table.views else "holds clips"
            classes = "; classes need other names than a and b" if Path(table.name, "a").is_dir() else ""
            raise InputError(f"{table.name} {what}, which is paired as it is: leave --transform out{classes}")
        if reading.transform_settings:
            raise InputError("--transform-settings has no effect, leave it out: there is no --transform")
        if transformed_first:
            raise InputError("--first-view transformed needs views that niso makes itself (--transform): leave it out")
        if table.clip is None:
            return RecordedPairs(table, parts, memory, device)
        return NeighbouringFrames(table, parts, memory, device, reading.skip)
    if transform is None:
        raise InputError(
            f"{table.name} holds single observations: name a transformation that niso is to apply by --transform, or "
            "give pairs (arrays x and tx, folders a/ and b/, or a folder for the frames of each clip)"
        )
    action = make_action("--transform", transform, table.kind, table.shape, reading.transform_settings)
    if transformed_first and not composes(action):
        raise InputError(f"--transform {transform} does not compose, as --first-view transformed needs: leave that out")
    return TransformedObservations(table, parts, memory, device, action, transform, transformed_first)

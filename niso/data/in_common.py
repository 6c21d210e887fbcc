"""Which collections, as clips are of frames, have most of their items in common: copies and cuts."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_COMMON = 50
"""Collections, at most, that an item is in which tells copies: black frames are in many."""


def groups_in_common(
    collection: Int[np.ndarray, " items"], item: Int[np.ndarray, " items"], count: int
) -> Int[np.ndarray, " count"]:
    """A number for each collection; the same for two of which one has half of its items or more in the other. A single
    common item, as a title or a black frame, tells copies only where both have no other.

    Args:
        collection: the number of each item's collection, 0 … count − 1.
        item: a number for each item, equal where items are.
    """
    pairs = np.unique(np.stack([collection, item]), axis=1)
    own = coo_array((np.ones(pairs.shape[1]), tuple(pairs)), (count, 1 + item.max(initial=0))).tocsc()
    own = own[:, own.sum(0) <= _COMMON].tocsr()
    shared, items = (own @ own.T).tocoo(), np.asarray(own.sum(1)).ravel()
    first, second = shared.coords
    alike = 2 * shared.data >= np.minimum(items[first], items[second])
    alike &= (shared.data > 1) | (np.maximum(items[first], items[second]) == 1)
    graph = coo_array((alike[alike], (first[alike], second[alike])), (count, count))
    return connected_components(graph, directed=False)[1]

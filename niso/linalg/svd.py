"""A singular value decomposition that also succeeds where LAPACK's fast driver fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

LinAlgError = torch.linalg.LinAlgError


def robust_svd(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Thin SVD, also of matrices on which LAPACK's fast driver fails."""
    try:
        return _svd_plain(m)
    except LinAlgError:
        return _svd_one_by_one(m)


def check_finite(m: Tensor, where: str = "polar") -> None:
    """Check that matrices are finite.

    Raises:
        FloatingPointError: one holds NaN or infinite entries; the message says which.
    """
    flat = m.reshape(-1, *m.shape[-2:])
    bad = (~flat.isfinite().all(-1).all(-1)).nonzero().flatten().tolist()
    if bad:
        raise FloatingPointError(f"{where}: matrices {bad} of {len(flat)} hold NaN or infinite entries")


def _svd_one_by_one(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """SVD of each matrix by the first algorithm that converges: the plain one, float64, then QR iteration.

    The fast divide-and-conquer driver can fail on one finite matrix of a batch (seen on a 32×32 float32 matrix
    after 10,000 healthy training steps); the others must not be lost with it.
    """
    check_finite(m)
    flat = m.reshape(-1, *m.shape[-2:])
    results = []
    for index, matrix in enumerate(flat):
        for attempt in (_svd_plain, _svd_double, _svd_qr_iteration):
            try:
                results.append(attempt(matrix))
                break
            except (LinAlgError, ValueError):  # SciPy's LinAlgError is a ValueError
                continue
        else:
            raise LinAlgError(
                f"polar: no SVD algorithm converges on matrix {index} of {len(flat)}, "
                f"whose entries lie between {matrix.min():.3g} and {matrix.max():.3g}"
            )
    u, s, vh = (torch.stack(parts).reshape(*m.shape[:-2], *parts[0].shape) for parts in zip(*results, strict=True))
    return u, s, vh


def cudagraph_unsafe() -> dict[str, Any]:
    """Arguments of `torch.library.custom_op` for an operator in which the host waits for a GPU, which nothing in a CUDA
    graph may do. Versions of torch without the tag have no CUDA graphs in pieces; torch 2.6 knows no `tags` at all."""
    return {"tags": [torch.Tag.cudagraph_unsafe]} if hasattr(torch.Tag, "cudagraph_unsafe") else {}


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """LAPACK in one thread: on small matrices, two threads are several times slower (benchmarks/results/polar.json)."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _svd_plain(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    with one_thread(m.device):
        u, s, vh = torch.linalg.svd(m, full_matrices=False)
    if not math.isfinite(s.sum().item()):  # LAPACK reports NaN, but returns NaN for infinite entries
        raise LinAlgError("singular values are not finite")
    return u, s, vh


def _svd_double(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = _svd_plain(m.double())
    return u.to(m), s.to(m), vh.to(m)


def _svd_qr_iteration(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    import scipy.linalg  # rarely needed, and slow to import

    parts = scipy.linalg.svd(m.double().cpu().numpy(), full_matrices=False, lapack_driver="gesvd")
    u, s, vh = (torch.from_numpy(x).to(m) for x in parts)
    return u, s, vh

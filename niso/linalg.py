"""The polar factor as one differentiable primitive, and its naive twin.

Every orthogonal matrix of the library comes from here: the maps τ_Ω (paper eq. 8) and the eigenfunctions Φ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Literal, ParamSpec, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from niso.polar_matmul import MatmulPolar, refuse_second_derivatives

P = ParamSpec("P")
R = TypeVar("R")

LinAlgError = torch.linalg.LinAlgError

Backend = Literal["auto", "svd", "matmul"]
"""How a polar factor is computed: by the SVD, by matrix products alone, or by what suits the device and the size."""

MATMUL_ABOVE = {"cuda": 0}
"""Devices on which "auto" takes matrix products, and the smaller side of the matrices above which it does.

CPU: never, measured (docs/scaling.md). CUDA: always, since the host waits for every SVD there, and a step with one
cannot be recorded as a CUDA graph; `python -m benchmarks.polar --device cuda` is yet to say which is faster.
"""


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` outside autocast, its floating-point tensors brought to one dtype: float32 or wider.

    Spectra and maps need it: there is no half-precision SVD, and orthogonality is lost in bfloat16. Tensors
    are looked for among the arguments themselves, not inside containers.
    """
    call: Callable[..., R] = function

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.is_floating_point()]
        if not tensors:
            return function(*args, **kwargs)
        dtype = torch.float32
        for tensor in tensors:
            dtype = torch.promote_types(dtype, tensor.dtype)
        device = tensors[0].device.type
        autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        if not autocast and all(tensor.dtype == dtype for tensor in tensors):  # the usual call, kept cheap
            return function(*args, **kwargs)

        def raised(value: object) -> object:
            return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

        with torch.autocast(device, enabled=False) if autocast else nullcontext():
            return call(*map(raised, args), **{name: raised(value) for name, value in kwargs.items()})

    return wrapped


@full_precision
def matmul(x: Float[Tensor, "*#batch n m"], y: Float[Tensor, "*#batch m k"]) -> Float[Tensor, "*batch n k"]:
    """x @ y in full precision, also under autocast: for everything that a spectrum or a map is applied to."""
    return x @ y


@full_precision
def polar(
    m: Float[Tensor, "*batch n k"], special: bool = False, damping: float = 0.0, backend: Backend = "auto"
) -> Float[Tensor, "*batch n k"]:
    """Nearest matrix with orthonormal columns (rows where n < k): Q = U Vᵀ for m = U S Vᵀ.

    This is the Procrustes projection ϰ of the paper (eq. 8). Its gradient is the exact analytic one, which
    needs only the sums σᵢ + σⱼ and so stays finite at repeated singular values, where differentiating the SVD
    itself divides by σᵢ² − σⱼ² = 0. Where σᵢ + σⱼ = 0 (to rounding) the factor is not unique; the gradient
    along those directions is defined as zero, which is exact for every function of Q that does not see them.
    First derivatives only: `create_graph=True` raises NotImplementedError.

    Args:
        m: matrices, any leading batch shape, float32 or float64 (half precision is raised to float32).
        special: give determinant +1 (SO(k) instead of O(k)); square matrices only. The right singular vector
            of the smallest singular value changes sign where needed, and that singular value enters the sums
            above with a minus: where it is repeated, the nearest rotation is not unique.
        damping: δ ≥ 0. With δ > 0 the gradient is that of an SVD whose derivative is damped by
            x ↦ x / (x² + δ), as in the released code with δ = 1e-8; 0 is exact.
        backend: "auto" is the SVD, but on devices in `MATMUL_ABOVE` matrix products for matrices above the size there,
            unless `special` or `damping` ask for singular vectors. The two differ by rounding, and in how they
            complete null spaces. Of a float32 matrix, "matmul" gives the polar factor to 1e-6 even at condition 1e6.

    Raises:
        ValueError: `special` with matrices that are not square, a negative damping, or an unknown backend;
            "matmul" with `special` or `damping`.
        FloatingPointError: a matrix holds NaN or infinite entries; the message says which. "matmul" on a GPU, where
            looking would mean waiting, returns NaN instead.
        torch.linalg.LinAlgError: no SVD algorithm converges on a finite matrix, in either precision.
    """
    if special and m.shape[-1] != m.shape[-2]:
        raise ValueError(f"special=True needs square matrices, got {m.shape[-2]}×{m.shape[-1]}")
    if damping < 0:
        raise ValueError(f"damping must not be negative, got {damping}")
    tall = m.mT if m.shape[-2] < m.shape[-1] else m
    if choose_backend(tall, special, damping, backend) == "matmul":
        if m.device.type == "cpu" and not torch.compiler.is_compiling():
            _check_finite(tall)
        q = MatmulPolar.apply(tall)
    else:
        q = _Polar.apply(tall, special, damping)
    return q.mT if m.shape[-2] < m.shape[-1] else q


def choose_backend(m: Tensor, special: bool, damping: float, backend: Backend = "auto") -> Backend:
    """The rule behind `polar`: "svd" or "matmul" for tall or square matrices m."""
    needs_svd = special or damping > 0
    if backend == "matmul" and needs_svd:
        raise ValueError('backend "matmul" has no special=True and no damping: they need the singular vectors')
    if backend not in get_args(Backend):
        raise ValueError(f"backend must be one of {get_args(Backend)}, not {backend!r}")
    if backend != "auto":
        return backend
    above = MATMUL_ABOVE.get(m.device.type)
    return "svd" if needs_svd or above is None or m.shape[-1] <= above else "matmul"


def polar_naive(m: Float[Tensor, "*batch n k"], special: bool = False) -> Float[Tensor, "*batch n k"]:
    """`polar` by autograd through the SVD: correct at distinct singular values only; for tests."""
    u, _, vh = torch.linalg.svd(m, full_matrices=False)
    return u @ (_signs(u, vh)[..., None] * vh if special else vh)


def _signs(u: Float[Tensor, "*batch k k"], vh: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch k"]:
    """Signs of the singular values that make det(u diag(signs) vh) = +1: all +1 but perhaps the last."""
    signs = torch.ones_like(u[..., 0, :])
    signs[..., -1] = torch.linalg.det((u @ vh).detach()).sign()
    return signs


class _Polar(torch.autograd.Function):
    """Polar factor of tall or square matrices, with the exact gradient."""

    @staticmethod
    def forward(ctx, m, special, damping):  # type: ignore[no-untyped-def]  # autograd.Function's own convention
        # the custom operator is opaque to the compiler, but its dispatch costs time that eager code need not pay
        u, s, vh = torch.ops.niso.svd(m) if torch.compiler.is_compiling() else _robust_svd(m)
        if special:  # a flipped direction enters the gradient with a negative singular value
            signs = _signs(u, vh)
            u, s = u * signs[..., None, :], s * signs
        ctx.save_for_backward(u, s, vh)
        ctx.damping, ctx.regular = damping, _is_regular(s, m.shape[-2])
        return u @ vh

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]  # as forward
        refuse_second_derivatives()
        u, s, vh = ctx.saved_tensors
        return _polar_gradient(grad, u, s, vh, ctx.damping, ctx.regular), None, None


@full_precision
def _polar_gradient(
    grad: Float[Tensor, "*batch n k"],
    u: Float[Tensor, "*batch n k"],
    s: Float[Tensor, "*batch k"],
    vh: Float[Tensor, "*batch k k"],
    damping: float,
    regular: bool = False,
) -> Float[Tensor, "*batch n k"]:
    """U [(A − Aᵀ)ᵢⱼ / (σᵢ + σⱼ)] Vᵀ + (I − U Uᵀ) G V S⁻¹ Vᵀ with A = Uᵀ G V.

    Where the matrices are known to be `regular`, nothing is guarded.
    """
    gv = grad @ vh.mT
    a = u.mT @ gv
    rows, columns = s[..., :, None], s[..., None, :]
    if regular and not damping and u.shape[-2] == u.shape[-1]:
        return u @ ((a - a.mT) / (rows + columns)) @ vh
    precision = torch.finfo(s.dtype)
    floor = (precision.eps * max(u.shape[-2:]) * s[..., :1, None]).clamp_min(precision.tiny)
    if damping:
        difference = columns.square() - rows.square()
        rotation = (a - a.mT) * ((columns - rows) * difference / (difference.square() + damping))
    else:
        rotation = _divide(a - a.mT, rows + columns, floor)
    inner = u @ rotation
    if u.shape[-2] > u.shape[-1]:
        rest = gv - u @ a
        inner += rest * columns / (columns.square() + damping) if damping else _divide(rest, columns, floor)
    return inner @ vh


def _is_regular(s: Float[Tensor, "*batch k"], n: int) -> bool:
    """Whether no σᵢ + σⱼ is 0 to rounding: asked only where the answer costs less than a guard does."""
    if torch.compiler.is_compiling() or s.device.type != "cpu" or not s.numel():
        return False
    return bool(s[..., -1].amin() > torch.finfo(s.dtype).eps * n * s[..., 0].amax())


def _divide(x: Tensor, y: Tensor, floor: Tensor) -> Tensor:
    """x/y, and 0 where y is at most `floor`: a pseudo-inverse."""
    return (x / y).masked_fill_(y <= floor, 0)


def _robust_svd(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Thin SVD that survives what LAPACK's fast driver does not."""
    try:
        return _svd_plain(m)
    except LinAlgError:
        return _svd_one_by_one(m)


@torch.library.custom_op("niso::svd", mutates_args=(), schema="(Tensor m) -> (Tensor, Tensor, Tensor)")
def _svd_operator(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`_robust_svd`, opaque to torch.compile and torch.export (which cannot trace its fallbacks)."""
    u, s, vh = _robust_svd(m)
    return u.contiguous(), s, vh.contiguous()


@_svd_operator.register_fake
def _svd_shapes(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    *batch, n, k = m.shape
    return m.new_empty(*batch, n, k), m.new_empty(*batch, k), m.new_empty(*batch, k, k)


def _check_finite(m: Tensor) -> None:
    flat = m.reshape(-1, *m.shape[-2:])
    bad = (~flat.isfinite().all(-1).all(-1)).nonzero().flatten().tolist()
    if bad:
        raise FloatingPointError(f"polar: matrices {bad} of {len(flat)} hold NaN or infinite entries")


def _svd_one_by_one(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each matrix by the first algorithm that converges: as it is, in float64, then by QR iteration.

    The fast divide-and-conquer driver can fail on a single finite element (seen on a 32×32 float32 matrix
    after 10,000 healthy training steps); nothing else of the batch may be lost with it.
    """
    _check_finite(m)
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


@contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    """LAPACK in one thread: for small matrices two are several times slower (benchmarks/results/polar.json)."""
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
    with _one_thread(m.device):
        u, s, vh = torch.linalg.svd(m, full_matrices=False)
    if not math.isfinite(s.sum().item()):  # LAPACK reports NaN, but returns NaN for infinite entries
        raise LinAlgError("singular values are not finite")
    return u, s, vh


def _svd_double(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = _svd_plain(m.double())
    return u.to(m), s.to(m), vh.to(m)


def _svd_qr_iteration(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    import scipy.linalg  # only ever needed here

    parts = scipy.linalg.svd(m.double().cpu().numpy(), full_matrices=False, lapack_driver="gesvd")
    u, s, vh = (torch.from_numpy(x).to(m) for x in parts)
    return u, s, vh

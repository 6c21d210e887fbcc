"""The polar factor and the inverse square root as differentiable primitives, and the polar factor's naive twin.

They give the maps τ_Ω (paper eq. 8) and the eigenfunctions Φ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from niso.checks import check_number, check_tensors
from niso.products import product

P = ParamSpec("P")
R = TypeVar("R")

LinAlgError = torch.linalg.LinAlgError


def autocasts(device: str) -> bool:
    """Whether autocast is on for a type of device."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def without_autocast(device: str) -> AbstractContextManager[object]:
    """A context without autocast on a type of device; none at all where it is off, which is cheaper."""
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate `function` to run outside autocast with all floating-point tensors in one dtype, float32 or wider.

    Spectra and maps need this: there is no half-precision SVD, and bfloat16 loses orthogonality. Only tensors that
    are arguments themselves are converted, not tensors inside containers.
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
        if not autocasts(device) and all(tensor.dtype == dtype for tensor in tensors):  # the usual call, kept cheap
            return function(*args, **kwargs)

        def raised(value: object) -> object:
            return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

        with without_autocast(device):
            return call(*map(raised, args), **{name: raised(value) for name, value in kwargs.items()})

    return wrapped


@full_precision
def matmul(x: Float[Tensor, "*#batch n m"], y: Float[Tensor, "*#batch m k"]) -> Float[Tensor, "*batch n k"]:
    """x @ y in full precision, also under autocast: spectra and maps are applied by it."""
    return product(x, y)


@full_precision
def polar(m: Float[Tensor, "*batch n k"], special: bool = False, damping: float = 0.0) -> Float[Tensor, "*batch n k"]:
    """Nearest matrix with orthonormal columns (rows where n < k): Q = U Vᵀ for m = U S Vᵀ.

    This is the Procrustes projection ϰ of the paper (eq. 8). Its derivative is the exact analytic one, which
    needs only the sums σᵢ + σⱼ and so stays finite at repeated singular values, where differentiating the SVD
    itself divides by σᵢ² − σⱼ² = 0. Where σᵢ + σⱼ = 0 (to rounding) the factor is not unique; the derivative
    along those directions is defined as zero, which is exact for every function of Q that does not see them.

    Derivatives of any order and in both modes are supported (`create_graph=True`, `torch.func`, forward mode), as is
    `torch.func.vmap`. Compiled and exported programs have first derivatives in reverse mode; what torch.compile meets
    inside a transformation of `torch.func` it leaves uncompiled.

    Args:
        m: matrices, any leading batch shape, float32 or float64 (half precision is raised to float32).
        special: give determinant +1 (SO(k) instead of O(k)); square matrices only. The right singular vector
            of the smallest singular value changes sign where needed, and that singular value enters the sums
            above with a minus: where it is repeated, the nearest rotation is not unique.
        damping: δ ≥ 0. With δ > 0 the derivative is that of an SVD whose derivative is damped by
            x ↦ x / (x² + δ), as in the released code with δ = 1e-8; 0 is exact. A damped derivative cannot be
            differentiated again.

    Returns:
        Q, of the shape of m.

    Raises:
        TypeError: not a tensor of floating-point numbers.
        ValueError: not matrices, `special` with matrices that are not square, or a negative damping.
        FloatingPointError: a matrix holds NaN or infinite entries; the message says which.
        NotImplementedError: a second derivative with damping.
        torch.linalg.LinAlgError: no SVD algorithm converges on a finite matrix, in either precision.
    """
    check_tensors(m=(m, "* n k"))
    if special and m.shape[-1] != m.shape[-2]:
        raise ValueError(f"special=True needs square matrices, got {m.shape[-2]}×{m.shape[-1]}")
    check_number("damping", damping)
    factor = _Polar.apply
    if torch.compiler.is_compiling():
        if torch._C._are_functorch_transforms_active():  # the operator would drop the tangents of torch.func.jvp
            raise NotImplementedError("polar cannot be compiled under a transformation of torch.func")
        factor = torch.ops.niso.polar  # not always: its dispatch costs time that eager code need not pay
    wide = m.shape[-2] < m.shape[-1]
    q = factor(m.mT if wide else m, special, damping)[0]
    return q.mT if wide else q


@full_precision
def inverse_root(g: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch k k"]:
    """Symmetric inverse square root g^(−1/2) = V Λ^(−1/2) Vᵀ of positive definite g = V Λ Vᵀ.

    Its derivative is the exact analytic one, which needs the sums √λᵢ + √λⱼ alone and so is finite at repeated
    eigenvalues too, where differentiating the eigenvectors divides by λᵢ − λⱼ = 0. Reverse mode, of any order.

    Args:
        g: symmetric matrices, any leading batch shape, float32 or float64; only the lower triangle is read, and the
            gradient is symmetric.

    Returns:
        g^(−1/2), symmetric.

    Raises:
        TypeError: not a tensor of floating-point numbers.
        ValueError: not square matrices.
        torch.linalg.LinAlgError: a matrix is not positive definite to working precision, or not finite. Compiled and
            exported programs do not look.
    """
    check_tensors(g=(g, "* k k"))
    return _InverseRoot.apply(g)[0]


class _InverseRoot(torch.autograd.Function):
    """(R, S, Vᵀ) with R = g^(−1/2) = V S Vᵀ; only R is differentiable."""

    @staticmethod
    def forward(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with _one_thread(g.device):
            values, vectors = torch.linalg.eigh(g)
        if not torch.compiler.is_compiling() and values.numel():
            # rounding moves the eigenvalues by about so much: smaller ones may be anything, 0 among it
            floor = torch.finfo(g.dtype).eps * values[..., -1:].abs()
            if not bool((values > floor).all()):
                raise LinAlgError(
                    "inverse_root: not positive definite to working precision, the eigenvalues lie between "
                    f"{values.min():.3g} and {values.max():.3g}"
                )
        s = values.rsqrt()
        return (vectors * s[..., None, :]) @ vectors.mT, s, vectors.mT.contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *constant: None) -> Tensor | None:
        if grad is None:
            return None
        root, s, vh = ctx.saved_tensors
        grad = (grad + grad.mT) / 2
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # R dR + dR R = −R² dg R², whose adjoint is built from differentiable operations
            square = root @ root
            return -square @ _Sylvester.apply(root, grad, s, vh, s.new_zeros(*s.shape[:-1], 1, 1)) @ square
        rows, columns = s[..., :, None], s[..., None, :]
        weight = (rows * columns).square() / (rows + columns)
        return -vh.mT @ (vh @ grad @ vh.mT * weight) @ vh


def polar_naive(m: Float[Tensor, "*batch n k"], special: bool = False) -> Float[Tensor, "*batch n k"]:
    """`polar` by autograd through the SVD, correct at distinct singular values only; for tests."""
    u, _, vh = torch.linalg.svd(m, full_matrices=False)
    return u @ (_signs(u, vh)[..., None] * vh if special else vh)


def _signs(u: Float[Tensor, "*batch k k"], vh: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch k"]:
    """Signs of the singular values that make det(u diag(signs) vh) = +1: all +1 but perhaps the last."""
    signs = torch.ones_like(u[..., 0, :])
    signs[..., -1] = torch.linalg.det((u @ vh).detach()).sign()
    return signs


def _nested_forward_mode() -> Any:
    """Forward mode of outer levels, which PyTorch turns off in a `jvp` (so jacfwd(jacfwd) is wrong, issue 197867)."""
    return forward_ad._set_fwd_grad_enabled(True)


def _primal(x: Tensor) -> Tensor:
    """A saved tensor without its tangent of the present level."""
    return forward_ad.unpack_dual(x).primal


class _Polar(torch.autograd.Function):
    """(Q, U, S, Vᵀ, regular) of tall or square matrices; only Q is differentiable.

    Q is the gradient of the sum of the singular values (signed where `special`), so its derivative is a symmetric
    operator: forward and reverse mode apply the same one. Where that derivative may itself be differentiated, as
    always under torch.func, it is built from differentiable operations; the usual backward pass has a faster way.
    """

    @staticmethod
    def forward(m: Tensor, special: bool, damping: float) -> tuple[Tensor, Tensor, Tensor, Tensor, bool]:
        u, s, vh = _robust_svd(m)
        if special:  # a flipped direction enters the derivative with a negative singular value
            signs = _signs(u, vh)
            u, s = u * signs[..., None, :], s * signs
        return product(u, vh), u, s, vh, _is_regular(s, m.shape[-2])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        m, _, ctx.damping = inputs
        q, u, s, vh, *regular = output  # the operator has no last entry
        ctx.regular = any(regular)
        ctx.mark_non_differentiable(u, s, vh)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(m, q, u, s, vh)
        ctx.save_for_forward(m, q, u, s, vh)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *constant: None) -> tuple[Tensor | None, None, None]:
        if grad is None:
            return None, None, None
        m, q, u, s, vh = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return _polar_derivative(grad, m, q, u, s, vh, ctx.damping), None, None
        return _polar_gradient(grad, u, s, vh, ctx.damping, ctx.regular), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, *constant: None) -> tuple[Tensor | None, None, None, None, None]:
        if tangent is None:
            return None, None, None, None, None
        with _nested_forward_mode():
            m, q, u, s, vh = map(_primal, ctx.saved_tensors)
            return _polar_derivative(tangent, m, q, u, s, vh, ctx.damping), None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None, None], m: Tensor, special: bool, damping: float) -> tuple[Any, Any]:
        return _Polar.apply(m.movedim(in_dims[0], 0), special, damping), (0, 0, 0, 0, None)


@torch.library.custom_op(
    "niso::polar", mutates_args=(), schema="(Tensor m, bool special, float damping) -> (Tensor, Tensor, Tensor, Tensor)"
)
def _polar_operator(m: Tensor, special: bool, damping: float) -> tuple[Tensor, ...]:
    """`_Polar` without its flag, opaque to torch.compile and torch.export, which cannot trace the SVD's fallbacks."""
    return tuple(factor.contiguous() for factor in _Polar.forward(m, special, damping)[:4])


@_polar_operator.register_fake
def _polar_shapes(m: Tensor, special: bool, damping: float) -> tuple[Tensor, ...]:
    *batch, n, k = m.shape
    return tuple(m.new_empty(*batch, *shape) for shape in ((n, k), (n, k), (k,), (k, k)))


_polar_operator.register_autograd(_Polar.backward, setup_context=_Polar.setup_context)


@full_precision
def _polar_derivative(
    direction: Float[Tensor, "*#batch n k"],
    m: Float[Tensor, "*#batch n k"],
    q: Float[Tensor, "*#batch n k"],
    u: Float[Tensor, "*#batch n k"],
    s: Float[Tensor, "*#batch k"],
    vh: Float[Tensor, "*#batch k k"],
    damping: float,
) -> Float[Tensor, "*batch n k"]:
    """What `_polar_gradient` gives, differentiable in direction, m and q.

    It is Q X + (I − Q Qᵀ) G H⁻¹ for the direction G, with H = Qᵀ m and H X + X H = Qᵀ G − Gᵀ Q.
    """
    if damping:
        return _DampedGradient.apply(direction, m, u, s, vh, damping)
    h = q.mT @ m
    h = (h + h.mT) / 2
    a = q.mT @ direction
    floor = _floor(s, m.shape[-2])
    derivative = q @ _Sylvester.apply(h, a - a.mT, s, vh, floor)
    if m.shape[-2] > m.shape[-1]:
        identity = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device).expand_as(h)
        inverse = _Sylvester.apply(h, 2 * identity, s, vh, floor)
        derivative = derivative + (direction - q @ a) @ inverse
    return derivative


class _Sylvester(torch.autograd.Function):
    """X with H X + X H = C for symmetric H = V S Vᵀ, given too as S and Vᵀ; 0 where a sum of S is at most `floor`.

    Differentiable in H and C, any number of times, without derivatives of V and S.
    """

    @staticmethod
    def forward(h: Tensor, c: Tensor, s: Tensor, vh: Tensor, floor: Tensor) -> Tensor:
        return vh.mT @ _divide(vh @ c @ vh.mT, s[..., :, None] + s[..., None, :], floor) @ vh

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        h, _, s, vh, floor = inputs
        ctx.save_for_backward(h, output, s, vh, floor)
        ctx.save_for_forward(h, output, s, vh, floor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, x, s, vh, floor = ctx.saved_tensors
        z = _Sylvester.apply(h, grad, s, vh, floor)
        return -(z @ x.mT + x.mT @ z), z, None, None, None

    @staticmethod
    def jvp(ctx: Any, dh: Tensor, dc: Tensor, *constant: Tensor) -> Tensor:
        with _nested_forward_mode():
            h, x, s, vh, floor = map(_primal, ctx.saved_tensors)
            return _Sylvester.apply(h, dc - dh @ x - x @ dh, s, vh, floor)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        pairs = zip(tensors, in_dims, strict=True)
        batched = (x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0) for x, dim in pairs)
        return _Sylvester.apply(*batched), 0


class _DampedGradient(torch.autograd.Function):
    """`_polar_gradient` with damping, which is not the derivative of anything and so has none itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(direction: Tensor, m: Tensor, u: Tensor, s: Tensor, vh: Tensor, damping: float) -> Tensor:
        return _polar_gradient(direction, u, s, vh, damping)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("polar with damping has first derivatives only: second ones need damping=0")

    jvp = backward


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

    For matrices known to be `regular` it leaves out the guards against division by zero.
    """
    gv = product(grad, vh.mT)
    a = product(u.mT, gv)
    rows, columns = s[..., :, None], s[..., None, :]
    if regular and not damping and u.shape[-2] == u.shape[-1]:
        return product(product(u, (a - a.mT) / (rows + columns)), vh)
    floor = _floor(s, u.shape[-2])
    if damping:
        difference = columns.square() - rows.square()
        rotation = (a - a.mT) * ((columns - rows) * difference / (difference.square() + damping))
    else:
        rotation = _divide(a - a.mT, rows + columns, floor)
    inner = product(u, rotation)
    if u.shape[-2] > u.shape[-1]:
        rest = gv - product(u, a)
        inner = inner + (rest * columns / (columns.square() + damping) if damping else _divide(rest, columns, floor))
    return product(inner, vh)


def _floor(s: Float[Tensor, "*batch k"], n: int) -> Float[Tensor, "*batch 1 1"]:
    """What counts as zero beside the singular values of n×k matrices."""
    precision = torch.finfo(s.dtype)
    return (precision.eps * n * s[..., :1, None]).clamp_min(precision.tiny)


def _is_regular(s: Float[Tensor, "*batch k"], n: int) -> bool:
    """Whether no σᵢ + σⱼ is 0 to rounding; False where finding out costs more than the guards, as on a GPU."""
    if s.device.type != "cpu" or not s.numel():
        return False
    return bool(s[..., -1].amin() > torch.finfo(s.dtype).eps * n * s[..., 0].amax())


def _divide(x: Tensor, y: Tensor, floor: Tensor) -> Tensor:
    """x/y, and 0 where y is at most `floor`: a pseudo-inverse."""
    return (x / y).masked_fill_(y <= floor, 0)


def _robust_svd(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Thin SVD, also of matrices on which LAPACK's fast driver fails."""
    try:
        return _svd_plain(m)
    except LinAlgError:
        return _svd_one_by_one(m)


def _check_finite(m: Tensor) -> None:
    flat = m.reshape(-1, *m.shape[-2:])
    bad = (~flat.isfinite().all(-1).all(-1)).nonzero().flatten().tolist()
    if bad:
        raise FloatingPointError(f"polar: matrices {bad} of {len(flat)} hold NaN or infinite entries")


def _svd_one_by_one(m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """SVD of each matrix by the first algorithm that converges: the plain one, float64, then QR iteration.

    The fast divide-and-conquer driver can fail on one finite matrix of a batch (seen on a 32×32 float32 matrix
    after 10,000 healthy training steps); the others must not be lost with it.
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
    with _one_thread(m.device):
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

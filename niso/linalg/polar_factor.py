"""The polar factor, with an exact derivative of any order."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_number, check_tensors
from niso.linalg import newton_schulz
from niso.linalg.precision import full_precision
from niso.linalg.products import product
from niso.linalg.svd import cudagraph_unsafe, robust_svd
from niso.linalg.sylvester import Sylvester, divide, nested_forward_mode, primal


@full_precision
def polar(m: Float[Tensor, "*batch n k"], special: bool = False, damping: float = 0.0) -> Float[Tensor, "*batch n k"]:
    """Nearest matrix with orthonormal columns (rows where n < k): Q = U Vᵀ for m = U S Vᵀ.

    This is the Procrustes projection ϰ of the paper (eq. 8). Its derivative is the exact analytic one, which
    needs only the sums σᵢ + σⱼ and so stays finite at repeated singular values, where differentiating the SVD
    itself divides by σᵢ² − σⱼ² = 0. Where σᵢ + σⱼ = 0 (to rounding) the factor is not unique; the derivative
    along those directions is defined as zero, which is exact for every function of Q that does not see them.

    Derivatives of any order and in both modes are supported (`create_graph=True`, `torch.func`, forward mode), as is
    `torch.func.vmap`. Compiled and exported programs have first derivatives in reverse mode; what torch.compile meets
    inside a transformation of `torch.func` it leaves uncompiled. Compiled for a GPU, the factor of more than 32 columns
    in float32 is by matrix products alone (`niso.linalg.newton_schulz`), and of matrices that hold NaN it is NaN.

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
    wide = m.shape[-2] < m.shape[-1]
    tall = m.mT if wide else m
    if not torch.compiler.is_compiling():
        q = _Polar.apply(tall, special, damping)[0]
    elif torch._C._are_functorch_transforms_active():  # the operators would drop the tangents of torch.func.jvp
        raise NotImplementedError("polar cannot be compiled under a transformation of torch.func")
    elif newton_schulz.pays(tall, special, damping):
        q = newton_schulz.polar(tall)
    else:  # not always: its dispatch costs time that eager code need not pay
        q = torch.ops.niso.polar(tall, special, damping)[0]
    return q.mT if wide else q


def _signs(u: Float[Tensor, "*batch k k"], vh: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch k"]:
    """Signs of the singular values that make det(u diag(signs) vh) = +1: all +1 but perhaps the last."""
    signs = torch.ones_like(u[..., 0, :])
    signs[..., -1] = torch.linalg.det((u @ vh).detach()).sign()
    return signs


class _Polar(torch.autograd.Function):
    """(Q, U, S, Vᵀ, regular) of tall or square matrices; only Q is differentiable.

    Q is the gradient of the sum of the singular values (signed where `special`), so its derivative is a symmetric
    operator: forward and reverse mode apply the same one. Where that derivative may itself be differentiated, as
    always under torch.func, it is built from differentiable operations; the usual backward pass has a faster way.
    """

    @staticmethod
    def forward(m: Tensor, special: bool, damping: float) -> tuple[Tensor, Tensor, Tensor, Tensor, bool]:
        u, s, vh = robust_svd(m)
        if special and s.shape[-1]:  # a flipped direction enters the derivative with a negative singular value
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
        with nested_forward_mode():
            m, q, u, s, vh = map(primal, ctx.saved_tensors)
            return _polar_derivative(tangent, m, q, u, s, vh, ctx.damping), None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None, None], m: Tensor, special: bool, damping: float) -> tuple[Any, Any]:
        return _Polar.apply(m.movedim(in_dims[0], 0), special, damping), (0, 0, 0, 0, None)


@torch.library.custom_op(
    "niso::polar",
    mutates_args=(),
    schema="(Tensor m, bool special, float damping) -> (Tensor, Tensor, Tensor, Tensor)",
    **cudagraph_unsafe(),
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
    floor = _floor(s, m.shape[-2])  # of sums of two singular values; of one, counted twice, double
    x = Sylvester.apply(h, a - a.mT, s, vh, floor)
    derivative = q @ ((x - x.mT) / 2)  # antisymmetric but for rounding, which small singular values enlarge
    if m.shape[-2] > m.shape[-1]:
        identity = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device).expand_as(h)
        inverse = Sylvester.apply(h, 2 * identity, s, vh, 2 * floor)
        derivative = derivative + (direction - q @ a) @ inverse
    return derivative


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
    if damping:
        return _damped_gradient(gv, a, u, s, vh, damping)
    floor = _floor(s, u.shape[-2])
    inner = product(u, divide(a - a.mT, rows + columns, floor))
    if u.shape[-2] > u.shape[-1]:
        inner = inner + divide(gv - product(u, a), columns, floor)
    return product(inner, vh)


def _damped_gradient(
    gv: Float[Tensor, "*batch n k"],
    a: Float[Tensor, "*batch k k"],
    u: Float[Tensor, "*batch n k"],
    s: Float[Tensor, "*batch k"],
    vh: Float[Tensor, "*batch k k"],
    damping: float,
) -> Float[Tensor, "*batch n k"]:
    """The same by the derivative of a damped SVD, from G V and A.

    Where σ exceed 4, they are divided by a power of two, and δ by its powers: fourth powers of σ might overflow.
    """
    largest, tiny = s[..., :1, None].abs(), torch.finfo(s.dtype).tiny
    unit = torch.ldexp(torch.ones_like(largest), (2 - torch.frexp(largest).exponent).clamp_max(0))
    rows, columns = s[..., :, None] * unit, s[..., None, :] * unit
    difference = columns.square() - rows.square()
    squares = difference.square() + (damping * unit**4).clamp_min(tiny)
    inner = product(u, (a - a.mT) * ((columns - rows) * difference / squares))
    if u.shape[-2] > u.shape[-1]:
        rest = gv - product(u, a)
        inner = inner + rest * columns / (columns.square() + (damping * unit**2).clamp_min(tiny))
    return product(inner, vh) * unit


def _floor(s: Float[Tensor, "*batch k"], n: int) -> Float[Tensor, "*batch 1 1"]:
    """What counts as zero beside the singular values of n×k matrices."""
    precision = torch.finfo(s.dtype)
    return (precision.eps * n * s[..., :1, None]).clamp_min(precision.tiny)


def _is_regular(s: Float[Tensor, "*batch k"], n: int) -> bool:
    """Whether no σᵢ + σⱼ is 0 to rounding; False where finding out costs more than the guards, as on a GPU."""
    if s.device.type != "cpu" or not s.numel():
        return False
    return bool(s[..., -1].amin() > torch.finfo(s.dtype).eps * n * s[..., 0].amax())

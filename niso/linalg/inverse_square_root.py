"""The inverse square root of positive definite matrices."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_tensors
from niso.linalg.precision import full_precision
from niso.linalg.svd import LinAlgError, cudagraph_unsafe, one_thread
from niso.linalg.sylvester import Sylvester, nested_forward_mode, primal


@full_precision
def inverse_root(g: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch k k"]:
    """Symmetric inverse square root g^(−1/2) = V Λ^(−1/2) Vᵀ of positive definite g = V Λ Vᵀ.

    Its derivative is the exact analytic one, which needs the sums √λᵢ + √λⱼ alone and so is finite at repeated
    eigenvalues too, where differentiating the eigenvectors divides by λᵢ − λⱼ = 0. It works under `torch.func` and has
    derivatives of any order, like `niso.polar`.

    Args:
        g: symmetric matrices, any leading batch shape, float32 or float64; only the lower triangle is read, and the
            gradient is symmetric.

    Returns:
        g^(−1/2), symmetric.

    Raises:
        TypeError: not a tensor of floating-point numbers.
        ValueError: not square matrices.
        torch.linalg.LinAlgError: a matrix is not positive definite to working precision, or not finite.
        NotImplementedError: it is compiled under a transformation of torch.func.
    """
    check_tensors(g=(g, "* k k"))
    if not torch.compiler.is_compiling():
        return _InverseRoot.apply(g)[0]
    if torch._C._are_functorch_transforms_active():  # the operator would drop the tangents of torch.func.jvp
        raise NotImplementedError("inverse_root cannot be compiled under a transformation of torch.func")
    return torch.ops.niso.inverse_root(g)[0]  # not always: its dispatch costs time that eager code need not pay


class _InverseRoot(torch.autograd.Function):
    """(R, S, Vᵀ) with R = g^(−1/2) = V S Vᵀ; only R is differentiable."""

    @staticmethod
    def forward(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with one_thread(g.device):
            values, vectors = torch.linalg.eigh(g)
        if values.numel():
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
        ctx.save_for_forward(*output)

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor | None, *constant: None) -> Tensor | None:
        if grad is None:
            return None
        root, s, vh = ctx.saved_tensors
        grad = (grad + grad.mT) / 2
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return _derivative(grad, root, s, vh)
        rows, columns = s[..., :, None], s[..., None, :]
        weight = rows * columns * (rows * columns / (rows + columns))  # its square alone might overflow
        return -vh.mT @ (vh @ grad @ vh.mT * weight) @ vh

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None) -> tuple[Tensor | None, None, None]:
        if tangent is None:
            return None, None, None
        with nested_forward_mode():
            root, s, vh = map(primal, ctx.saved_tensors)
            return _derivative((tangent + tangent.mT) / 2, root, s, vh), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], g: Tensor) -> tuple[Any, Any]:
        return _InverseRoot.apply(g.movedim(in_dims[0], 0)), (0, 0, 0)


@torch.library.custom_op(
    "niso::inverse_root", mutates_args=(), schema="(Tensor g) -> (Tensor, Tensor, Tensor)", **cudagraph_unsafe()
)
def _inverse_root_operator(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`_InverseRoot`, opaque to torch.compile and torch.export, which cannot trace what it looks at."""
    return _InverseRoot.forward(g)


@_inverse_root_operator.register_fake
def _inverse_root_shapes(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return g.new_empty(g.shape), g.new_empty(g.shape[:-1]), g.new_empty(g.shape)


_inverse_root_operator.register_autograd(_InverseRoot.backward, setup_context=_InverseRoot.setup_context)


def _derivative(
    direction: Float[Tensor, "*batch k k"],
    root: Float[Tensor, "*batch k k"],
    s: Float[Tensor, "*batch k"],
    vh: Float[Tensor, "*batch k k"],
) -> Float[Tensor, "*batch k k"]:
    """dR for the symmetric direction dg, from R dR + dR R = −R² dg R²; it is its own adjoint and differentiable."""
    square = root @ root
    return -square @ Sylvester.apply(root, direction, s, vh, s.new_zeros(*s.shape[:-1], 1, 1)) @ square

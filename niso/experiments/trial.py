"""A method of the user's own, tried on a few observations before it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from niso.checks import described
from niso.errors import InputError, foreign
from niso.experiments.alone import TRIED
from niso.linalg import matmul
from niso.messages import say
from niso.methods.method import Method
from niso.training.meter import Meter
from niso.training.mode import in_mode

ORTHOGONAL = 1e-2
"""How far entries of (τᵀτ)² may lie from those of τᵀτ where maps are isometries, perhaps of a subspace."""


def try_method(method: Method, objective: nn.Module, views: Sequence[Tensor]) -> None:
    """Try what an untrained method makes of a batch, as a step of training and an evaluation will; the generator of the
    CPU stays as it is. A line says where its maps are not orthogonal, though it says so.

    Args:
        views: the batch of a step, ψ and Tψ first.

    Raises:
        InputError: `encode`, `solve` or `decode` fails, gives something of another form or what is not finite, or
            changes what it gets; or the objective gives no terms of a loss. What else goes wrong in it keeps its place
            in the program.
    """
    name = type(method).__name__
    x, tx = (view[:TRIED] for view in views[:2])
    finite = bool(x.isfinite().all() and tx.isfinite().all())  # unseen pixels are not
    with in_mode(method.model, False), in_mode(objective, False), torch.random.fork_rng([]):
        with torch.no_grad():
            a, b = (_given(f"{name}.encode", method.encode, view, (len(view), None, None), finite) for view in (x, tx))
            if method.has_maps:
                tau = _given(
                    f"{name}.solve", lambda pair: method.solve(*pair), (a, b), (len(a), *2 * [a.shape[1]]), finite
                )
                if tau.dtype != a.dtype:
                    raise InputError(f"{name}.solve must give {a.dtype} for coefficients of {a.dtype}, not {tau.dtype}")
                if method.isometric and (error := _from_orthogonal(tau)) > ORTHOGONAL:
                    say(f"! maps of {name} are not orthogonal (by {error:.2g}) → say isometric = False in its class")
                b = matmul(tau, a)
            _given(f"{name}.decode", method.decode, b, tuple(tx.shape), finite)
        with method.precision():
            try:
                Meter().add(objective(tuple(views), 0.0))
            except TypeError as error:
                raise InputError(f"{name}.objective: {error}") from error


def _given(what: str, function: Callable[[Any], Any], x: Any, shape: tuple[int | None, ...], finite: bool) -> Tensor:
    """What a function of a method gives; InputError where it is no such tensor.

    Args:
        what: the function, for messages.
        shape: of what it gives; None stands for any length.
    """
    tensors = x if isinstance(x, tuple) else (x,)
    changes = [tensor._version for tensor in tensors]  # counts what is done in place
    with foreign(f"{what} fails on {_words(x)}"):
        given = function(x)
    form = isinstance(given, Tensor) and given.is_floating_point() and given.ndim == len(shape)
    if not form or any(side not in (None, length) for side, length in zip(shape, given.shape, strict=True)):
        sides = ", ".join("…" if side is None else str(side) for side in shape)
        raise InputError(f"{what} must give a tensor ({sides}) for {_words(x)}, not {described(given)}")
    if [tensor._version for tensor in tensors] != changes:
        raise InputError(f"{what} changes what it gets, which metrics need: let it make others")
    if finite and not given.isfinite().all():
        raise InputError(f"{what} gives what is not finite for {_words(x)}")
    return given


def _words(x: Any) -> str:
    return " and ".join(map(described, x)) if isinstance(x, tuple) else described(x)


def _from_orthogonal(tau: Tensor) -> float:
    """How far maps are from isometries of the subspaces that they do not send to zero."""
    product = matmul(tau.mT, tau)
    return (matmul(product, product) - product).abs().max().item() if tau.numel() else 0.0

"""Methods and spectra of the user's own, tried before they are trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args

import torch
from torch import Tensor, nn

from niso.checks import check_tensors, described
from niso.errors import InputError, foreign, nearest
from niso.experiments.alone import ALONE, TRIED, seeded
from niso.linalg import matmul
from niso.messages import say
from niso.methods.method import Method, Networks
from niso.methods.spectra import SPECTRA
from niso.spectrum import FixedSpectrum, Spectrum, SpectrumModule
from niso.spectrum.module import Role
from niso.testing import relative_error
from niso.training.meter import Meter
from niso.training.mode import in_mode
from niso.training.optimizer import spectra

ORTHOGONAL = 1e-2
"""How far entries of (τᵀτ)² may lie from those of τᵀτ where maps are isometries, perhaps of a subspace."""
MIXED = 1e-2
"""Relative difference of what a pair's map makes of coefficients, solved alone and beside others, above which it
depends on these: rounding is less."""
MOVED = 0.1
"""By how much the parameters of a spectrum are moved, of their root mean square: a stretch of training."""
_KEPT = "compute all three anew in each call from what is trained, or mend that in retract_"


def tried_method(
    kind: type[Method],
    config: Any,
    networks: Callable[[], Networks],
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
    device: torch.device | None = None,
    observed: str = "observations",
    larger: str = "",
) -> Method:
    """An untrained method, on a device, whose spectrum is tried where the user's own code makes it.

    Args:
        precision: a context that puts networks in the precision of the run.
        observed: what the networks take, with its size.
        larger: how to have it larger; empty where its size is given.

    Raises:
        InputError: the settings of networks and method do not fit the data, or as of `try_spectrum` and
            `Method.check_objective`.
    """
    try:
        made = networks()
        check_rank(kind, config, made, observed, larger)
        method = kind(config, made)
    except ValueError as error:
        raise InputError(str(error)) from error
    method.precision = precision
    method.model.to(device)
    chosen = getattr(config, "spectrum", None)
    name = ""
    if chosen in SPECTRA.foreign:
        name = f"spectrum {chosen}: {SPECTRA.find(chosen).__name__}"
    elif not kind.__module__.startswith("niso."):
        name = f"the spectrum of {kind.__name__}"
    place = next((tensor.device for tensor in method.model.parameters()), None)
    for module in spectra(method.model) if name else ():
        try_spectrum(name, module, precision, place)
    method.check_objective()
    return method


def check_rank(kind: type[Method], config: Any, networks: Networks, observed: str, larger: str) -> None:
    """Check that there are as many latent points as eigenfunctions, of which a preset may have set either.

    Raises:
        InputError: there are fewer.
    """
    rank, points = getattr(config, "rank", None), networks.points
    if "rank" in kind.reads and rank is not None and rank > points:
        grid = "×".join(map(str, networks.grid))
        raise InputError(
            f"rank {rank} must lie between 1 and the number of points, {points}: {observed} give {grid} latent points; "
            f"give --rank {points} or less{f', or {larger}' if larger else ''}"
        )


def try_method(method: Method, objective: nn.Module, views: Sequence[Tensor]) -> None:
    """Try what an untrained method makes of a batch, as a step of training and an evaluation will; the generator of the
    CPU stays as it is. A line says where its maps are not orthogonal, though it says so, or depend on other pairs.

    Args:
        views: the batch of a step, ψ and Tψ first.

    Raises:
        InputError: `encode`, `solve` or `decode` fails, gives something of another form or what is not finite, or
            changes what it gets; or the objective gives no terms of a loss that has a gradient, or changes its batch.
            What else goes wrong in it keeps its place in the program.
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
                alone = method.solve(a[:1], b[:1])  # maps may differ where coefficients are zero
                b = matmul(tau, a)
                if finite and (share := relative_error(matmul(alone, a[:1]), b[:1])) > MIXED:
                    say(f"! maps of {name} depend on the other pairs of their batch (by {share:.2g} of what they give)")
            _given(f"{name}.decode", method.decode, b, tuple(tx.shape), finite)
        with method.precision():
            changes = [view._version for view in views]
            try:
                terms = objective(tuple(views), 0.0)
                Meter().add(terms)
            except TypeError as error:
                raise InputError(f"{name}.objective: {error}") from error
        if [view._version for view in views] != changes:
            raise InputError(f"{name}.objective changes its batch, which may be the data itself: let it make others")
        if not terms["loss"].requires_grad:
            raise InputError(f"{name}.objective: its loss has no gradient: is it detached, or made under no_grad?")


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


def try_spectrum(
    name: str,
    spectrum: SpectrumModule,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
    device: torch.device | None = None,
) -> None:
    """Try what an untrained spectrum gives: as it is, with another mass to start from, and with parameters that are
    moved at random. It and the generator of the CPU stay as they are.

    Args:
        name: the part, for messages.
        precision: a context that puts networks in the precision of the run.
        device: where it should be; None for any.

    Raises:
        InputError: it fails, gives no `niso.Spectrum` of its points and rank with a positive mass, eigenvalues that are
            not negative and M-orthonormal eigenfunctions, differs from call to call, or does not stay one when it is
            trained; or its other methods do not give what they should.
    """
    with in_mode(spectrum, False), torch.no_grad(), torch.random.fork_rng([]):
        first = _checked(name, spectrum, device)
        again = _checked(name, spectrum, device, seed=1)
        for part, one, other in zip(Spectrum._fields, first, again, strict=True):
            if relative_error(other, one) > ALONE:
                problem = f"{part} of {name} differ from call to call in evaluation mode"
                raise InputError(f"{problem}: draw once, when it is made, and let noise depend on self.training")
        with precision(), foreign(f"{name} fails"):
            spectrum()
        with foreign(f"{name}.eigenvalues_alone fails"):
            alone = spectrum.eigenvalues_alone()
        if not isinstance(alone, Tensor) or alone.shape != first.eigenvalues.shape:
            raise InputError(f"{name}.eigenvalues_alone must give the eigenvalues, not {described(alone)}")
        if relative_error(alone, first.eigenvalues) > ALONE:
            raise InputError(f"{name}.eigenvalues_alone gives other eigenvalues than a call")
        _check_roles(name, spectrum)
        started = _copied(name, spectrum)
        with foreign(f"{name}.start_mass_at_ fails"):
            told = started.start_mass_at_(torch.linspace(0.5, 1.5, spectrum.points, dtype=torch.float64, device="cpu"))
        if not isinstance(told, bool):
            raise InputError(
                f"{name}.start_mass_at_ must say whether the mass starts there, True or False, not {told!r}"
            )
        _checked(name, started, device, " after start_mass_at_")
        for direction in (1, -1):  # as one of them makes a value negative that lies at 0
            moved = _copied(name, spectrum)
            _move_(moved, direction * MOVED)
            with foreign(f"{name}.retract_ fails"):
                moved.retract_()
            _checked(name, moved, device, " after a change of its parameters, as in training", _KEPT)


def _checked(
    name: str,
    module: SpectrumModule,
    device: torch.device | None,
    when: str = "",
    remedy: str = "",
    seed: int = 0,
) -> Spectrum:
    """What a module gives by random numbers of a seed; InputError where that is no spectrum, see `FixedSpectrum`."""
    with foreign(f"{name} fails{when}", remedy), seeded(seed, device or torch.device("cpu")):
        given = module()
    if not isinstance(given, Spectrum):
        raise InputError(
            f"{name} must give a niso.Spectrum, of mass, eigenfunctions and eigenvalues, not {described(given)}"
        )
    sizes = {"points": module.points, "rank": module.rank}
    try:
        check_tensors(
            sizes=sizes,
            mass=(given.mass, "points"),
            eigenfunctions=(given.eigenfunctions, "points rank"),
            eigenvalues=(given.eigenvalues, "rank"),
        )
        for part, tensor in given._asdict().items():
            if device is not None and tensor.device != device:
                remedy = "hold what is not trained by register_buffer"
                raise ValueError(f"{part} are on {tensor.device}, but networks on {device}")
        FixedSpectrum(*(part.cpu() for part in given))
    except (TypeError, ValueError) as error:
        raise InputError(": ".join(filter(None, [f"{name}{when}", str(error), remedy]))) from error
    return given


def _move_(module: nn.Module, share: float) -> None:
    """Change what is trained by random numbers, the same in each call, of this share of its root mean square."""
    generator = torch.Generator("cpu").manual_seed(0)
    for parameter in module.parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype, device="cpu")
            size = parameter.abs().square().mean().sqrt()
            parameter.add_(share * noise.to(parameter.device) * (size if size else 1.0))


def _check_roles(name: str, spectrum: SpectrumModule) -> None:
    """InputError where roles are not those that a training knows."""
    with foreign(f"{name}.roles fails"):
        roles = dict(spectrum.roles())
    for role in roles:
        if role not in get_args(Role):
            raise InputError(f"{name}.roles: unknown role {role!r}{nearest(str(role), get_args(Role))}")


def _copied(name: str, spectrum: SpectrumModule) -> SpectrumModule:
    with foreign(f"{name} cannot be copied"):
        return copy.deepcopy(spectrum)

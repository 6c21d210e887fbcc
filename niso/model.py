"""Neural Isometries: an autoencoder whose latents are related by isometries of a learned operator."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso import losses
from niso.autoencoding import Autoencoding
from niso.checks import (
    Scalar,
    check_choice,
    check_count,
    check_instance,
    check_number,
    check_shares,
    check_tensor,
    check_tensors,
    described,
)
from niso.dropout import SpectralDropout
from niso.functional_map import Mask, cross_covariance, isometric_map_from_covariance
from niso.linalg import matmul
from niso.spectrum import Spectrum


class IsometryOutput(NamedTuple):
    """Output of `NeuralIsometry`.

    Attributes:
        losses: scalars "reconstruction", "equivariance" and "multiplicity".
        map_ab: (batch, rank, rank) maps τ_Ω from each observation to the transformed one.
        latents: coefficients (batch, rank, channels) of each view in the eigenbasis, in the order given.
    """

    losses: dict[str, Float[Tensor, ""]]
    map_ab: Float[Tensor, "batch rank rank"]
    latents: tuple[Float[Tensor, "batch rank channels"], ...]

    def loss(self, equivariance: float = 0.5, multiplicity: Scalar = 0.1) -> Float[Tensor, ""]:
        """Total loss L_R + α L_E + β L_M (paper eq. 11) with α = `equivariance` and β = `multiplicity`.

        Raises:
            TypeError: a weight that is not a number.
            ValueError: a negative weight.
        """
        check_number("equivariance", equivariance)
        check_number("multiplicity", multiplicity)
        terms = self.losses
        loss = terms["reconstruction"]
        if equivariance:  # without weight, its backward pass would be for nothing
            loss = loss + equivariance * terms["equivariance"]
        return loss + multiplicity * terms["multiplicity"]  # with any weight: each parameter gets a gradient


class NeuralIsometry(Autoencoding):
    """Encoder + learned spectrum + decoder, with the losses of the pair, triplet and group regimes.

    The encoder maps observations (batch, …) to latent functions (batch, points, channels), and the decoder maps them
    back; `niso.on_grid` adapts networks whose latents are images. Both may be `nn.Identity`.

    Args:
        encoder, decoder: any modules.
        spectrum: a `LearnedSpectrum`, a `FieldSpectrum`, a `FixedSpectrum`, or any module that gives a `Spectrum`.
        mask: set of admissible maps, see `niso.isometric_map`; there also which eigenvalues "exact" counts as one.
        special: rotations (det τ = +1, as in the released code) instead of orthogonal maps (the paper).
        damping: damping of the map's derivative, see `niso.polar`.
        spectral_dropout: probability of spectral dropout; 0 turns it off, the paper takes 0.5 where it is on.
        norm: norm of the equivariance and reconstruction losses, see `niso.losses`.
        relative: measure the equivariance loss relative to the latents' spread, see `niso.losses.equivariance`.
        whitened: let all eigenfunctions count alike in the equivariance loss, see there.
        confidence: the encoder gives one channel more, the last, which says how far each point is trusted, in [0, 1].
            Coefficients are then those of weighted least squares, see `Spectrum.project`.

    Raises:
        TypeError: an encoder, decoder or spectrum that is not a module.
        ValueError: an unknown mask or norm, a negative damping, or a probability outside [0, 1].

    Source: paper §4; partial views are not in the paper.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        spectrum: nn.Module,
        mask: Mask = "soft",
        special: bool = False,
        damping: float = 0.0,
        spectral_dropout: float = 0.0,
        norm: losses.Norm = "l1",
        relative: bool = False,
        whitened: bool = False,
        confidence: bool = False,
    ) -> None:
        super().__init__(encoder, decoder)
        for name, module in (("encoder", encoder), ("decoder", decoder), ("spectrum", spectrum)):
            check_instance(name, module, nn.Module, "torch.nn.Module")
        check_choice("mask", mask, Mask)
        check_choice("norm", norm, losses.Norm)
        check_number("damping", damping)
        self.confidence = confidence
        self.norm: losses.Norm = norm
        self.relative = relative
        self.whitened = whitened
        self.spectrum = spectrum
        self.dropout = SpectralDropout(spectral_dropout)
        self.mask: Mask = mask
        self.special = special
        self.damping = damping

    def forward(
        self,
        x: Shaped[Tensor, "batch ..."],
        tx: Shaped[Tensor, "batch ..."],
        ttx: Shaped[Tensor, "batch ..."] | None = None,
        group: int = 1,
        leave_one_out: bool = True,
        eigenvalue_noise: Scalar = 0.0,
    ) -> IsometryOutput:
        """Losses and maps of observations ψ, Tψ and, in the triplet regime, T²ψ.

        - Pairs (paper eq. 9–10): τ is solved from each pair and transports it, in both directions.
        - Triplets, where `ttx` is given (eq. 23–24): τ from (ψ, Tψ) transports Tψ → T²ψ and σ from (Tψ, T²ψ)
          transports ψ → Tψ, so that no map is tested on the pair that it was solved from.
        - Groups, where `group` > 1 (not in the paper): each `group` consecutive observations share one T. τ is
          solved from the whole group or, with `leave_one_out`, for each member from the other members.

        Args:
            eigenvalue_noise: standard deviation of Gaussian noise on the eigenvalues that maps are solved with, in
                training (not in the paper). Where eigenvalues are equal, the mask does not see how their
                eigenfunctions are mixed, and no gradient unmixes them; with noise the mask sees it.

        Raises:
            TypeError: observations that are not tensors, or of several types of numbers, latents that are not of
                floating-point numbers, or a `group` that is not a whole number.
            ValueError: views of different lengths or shapes, a batch that is not a multiple of `group`, triplets in
                groups, a negative noise, noise with the exact mask, or latents that do not have the spectrum's number
                of points.
            FloatingPointError: NaN or infinite latents.
        """
        views = (x, tx) if ttx is None else (x, tx, ttx)
        _check_views(*views)
        check_number("eigenvalue_noise", eigenvalue_noise)
        lengths = _check_lengths(*views)
        if not lengths[0]:
            raise ValueError("a batch must hold at least one observation")
        if check_count("group", group) and lengths[0] % group:
            raise ValueError(f"a batch of {lengths[0]} observations cannot be cut into groups of {group}")
        if ttx is not None and group > 1:
            raise ValueError("triplets and groups cannot be combined: give ttx or group > 1, not both")
        spectrum = self.spectrum()
        latents = self.encode(torch.cat(views), spectrum).split(lengths)
        a, b = latents[:2]
        noisy = spectrum
        if self.training and (isinstance(eigenvalue_noise, Tensor) or eigenvalue_noise):
            if self.mask == "exact":
                raise ValueError("noise on eigenvalues leaves none equal, and with the exact mask maps are then signs")
            values = spectrum.eigenvalues
            values = values + eigenvalue_noise * torch.randn_like(values)
            noisy = Spectrum(spectrum.mass, spectrum.eigenfunctions, values)  # torch 2.6 does not compile _replace
        tau = self._solve(_shared_covariance(a, b, group, leave_one_out), noisy)
        if ttx is None:
            transported, targets = (matmul(tau, a), matmul(tau.mT, b)), (tx, x)
            equivariance = self._equivariance(a, b, *transported)
        else:
            c = latents[2]
            sigma = self._solve(cross_covariance(b, c), noisy)
            transported, targets = (matmul(sigma, a), matmul(tau, b)), (tx, ttx)
            equivariance = self._equivariance(a, b, transported[0]) + self._equivariance(b, c, transported[1])
        kept = [self.dropout(part, spectrum.eigenvalues) for part in transported]  # one by one, as `batch_rand` needs
        predictions = self._decode(torch.cat(kept), spectrum).split(lengths[:2])
        (first, second), (target, other) = predictions, targets  # torch 2.6 cannot compile a zip here
        terms = {
            "reconstruction": losses.reconstruction(first, target, self.norm)
            + losses.reconstruction(second, other, self.norm),
            "equivariance": equivariance,
            "multiplicity": losses.multiplicity(spectrum.eigenvalues),
        }
        return IsometryOutput(terms, tau, latents)

    def encode(
        self, x: Shaped[Tensor, "batch ..."], spectrum: Spectrum | None = None
    ) -> Float[Tensor, "batch rank channels"]:
        """Coefficients E_Ω(x) in the eigenbasis (paper eq. 6), the input of equivariant heads.

        Raises:
            TypeError: observations or latents that are no tensor, or a spectrum that is no `Spectrum`.
            ValueError: latents that do not fit the spectrum and the number of observations or, on a CPU, a confidence
                outside [0, 1].
        """
        _check_views(x)
        spectrum, z = spectrum or self.spectrum(), self.encoder(x)
        check_instance("what the spectrum's module gives", spectrum, Spectrum, "niso.Spectrum")
        # a program may be exported for batches of any size
        sizes = {} if torch.compiler.is_compiling() else {"batch": x.shape[0]}
        check_tensors(sizes={**sizes, "points": len(spectrum.mass)}, latents=(z, "batch points channels"))
        if self.confidence:
            if z.shape[-1] < 2:
                raise ValueError("with confidence the encoder must give two channels or more, the last the confidence")
            check_shares("the confidence, the encoder's last channel,", z[..., -1], "end it with a sigmoid")
            return spectrum.project(z[..., :-1], z[..., -1])
        return spectrum.project(z)

    def decode(
        self, a: Float[Tensor, "batch rank channels"], spectrum: Spectrum | None = None
    ) -> Shaped[Tensor, "batch ..."]:
        """Observations from coefficients, after spectral dropout where that is on.

        Raises:
            TypeError: not a tensor of floating-point numbers.
            ValueError: coefficients that are not (batch, rank, channels), or a decoder that gives another number of
                observations.
        """
        spectrum = spectrum or self.spectrum()
        check_tensors(sizes={"rank": len(spectrum.eigenvalues)}, a=(a, "batch rank channels"))
        return self._decode(self.dropout(a, spectrum.eigenvalues), spectrum)

    def _decode(self, a: Tensor, spectrum: Spectrum) -> Tensor:
        x = self.decoded(spectrum.unproject(a))
        check_tensor("what the decoder gives", x)
        if not torch.compiler.is_compiling() and x.shape[:1] != a.shape[:1]:
            raise ValueError(f"the decoder gives {described(x)} for {a.shape[0]} latent functions")
        return x

    def map_between(
        self, x: Shaped[Tensor, "batch ..."], tx: Shaped[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch rank rank"]:
        """Maps τ_Ω from x to tx (paper eq. 8).

        torch.export accepts it with a batch of any size, unless `mask` is "exact".

        Args:
            x, tx: observations and transformed ones, as many.

        Returns:
            A map for each pair.

        Raises:
            TypeError: observations that are not tensors, or of two types of numbers.
            ValueError: observations of different shapes, or latents that do not fit the spectrum.
            FloatingPointError: NaN or infinite latents.
        """
        _check_views(x, tx)
        _check_lengths(x, tx)
        spectrum = self.spectrum()
        a, b = self.encode(torch.cat([x, tx]), spectrum).split([x.shape[0], tx.shape[0]])
        return self._solve(cross_covariance(a, b), spectrum)

    def _equivariance(self, a: Tensor, b: Tensor, forward: Tensor, backward: Tensor | None = None) -> Tensor:
        return losses.transport(a, b, forward, backward, self.norm, self.relative, self.whitened)

    def _solve(self, covariance: Tensor, spectrum: Spectrum) -> Tensor:
        return isometric_map_from_covariance(covariance, spectrum.eigenvalues, self.mask, self.special, self.damping)


def _check_views(*views: Tensor) -> None:
    names = ("x", "tx", "ttx")[: len(views)]  # torch 2.6 cannot export a zip that leaves a name out
    for name, view in zip(names, views, strict=True):
        check_tensor(name, view)
        if not view.ndim:
            raise ValueError(f"{name} must be a batch of observations, not one number")
    x = views[0]
    for name, view in zip(names[1:], views[1:], strict=True):
        if view.dtype != x.dtype:
            whole = [n for n, part in (("x", x), (name, view)) if not part.dtype.is_floating_point]
            remedy = f": take {whole[0]}.float()" if whole else ""
            types = f"{x.dtype} of x and {view.dtype} of {name}"
            raise TypeError(f"views of one batch must be of one type, not {types}{remedy}")
    first, *others = [tuple(view.shape[1:]) for view in views]
    if any(other != first for other in others):
        raise ValueError(f"observations of one batch must be of one shape, not {[first, *others]}")


def _check_lengths(*views: Tensor) -> list[int]:
    """Lengths of views, which must be equal."""
    lengths = [view.shape[0] for view in views]  # not len, nor chunk later: they fix the length in an export
    if any(length != lengths[0] for length in lengths):
        raise ValueError(f"views of one batch must be equally long, not {lengths}")
    return lengths


def _shared_covariance(a: Tensor, b: Tensor, group: int, leave_one_out: bool) -> Tensor:
    """Cross-covariance of each pair or, in groups, the sum over its group with or without the pair itself."""
    covariance = cross_covariance(a, b)
    if group == 1:
        return covariance
    members = covariance.unflatten(0, (-1, group)).flatten(2)
    counted = torch.ones(group, group, dtype=members.dtype, device=members.device)
    if leave_one_out:  # the sum of the others, not the total less its own, which would lose those beside a large one
        counted = counted - torch.eye(group, dtype=members.dtype, device=members.device)
    return matmul(counted, members).view_as(covariance)

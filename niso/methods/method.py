"""What an experiment needs of a method, and all that experiments, evaluations and figures know of one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso.autoencoding import Autoencoding
from niso.checks import described
from niso.collective import process
from niso.errors import InputError
from niso.geometry.domains.domain import Domain, Sampling, box
from niso.linalg import autocasts, without_autocast
from niso.messages import say
from niso.methods.completion import CompletionObjective
from niso.methods.config import ClassifierConfig, Confidence, MethodConfig
from niso.methods.heads import HEADS
from niso.methods.heads.head import Head
from niso.methods.heads.rescaled import RescaledHead
from niso.methods.part import Part, parts_unread, settings_of, unread_by
from niso.methods.rounding import ROUNDED, rounding_error
from niso.methods.spectra import SPECTRA
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder, ViTConfig, ViTDecoder, ViTEncoder
from niso.networks.occlusion import RandomOcclusion, SeenPoints, Visibility
from niso.spectrum import Spectrum

Batches = Iterator[tuple[Tensor, ...]]


class Networks(NamedTuple):
    """Untrained networks that a method is built around.

    Attributes:
        encoder: observations (batch, …) to latent functions (batch, points, channels).
        decoder: the way back.
        grid: height and width of the latent grid, N = height × width points; (1, N) of signals and functions on
            points, (depth, height, width) of volumes.
        channels: number d of latent channels.
        domain: where the points of the latent grid lie.
        confidence: whether the encoder gives another channel, the last: how far each point is trusted, in [0, 1].
        visibility: the part of the encoder that predicts which pixels are seen; None where it has none.
    """

    encoder: nn.Module
    decoder: nn.Module
    grid: tuple[int, ...]
    channels: int
    domain: Domain = box
    confidence: bool = False
    visibility: nn.Module | None = None

    @property
    def points(self) -> int:
        """Number N of latent points."""
        return math.prod(self.grid)

    @classmethod
    def convolutional(
        cls,
        config: ConvConfig,
        size: tuple[int, int],
        channels: int,
        domain: Domain = box,
    ) -> Networks:
        """Convolutional networks for images of this size and so many channels, whatever the configuration says.

        Raises:
            ValueError: the networks do not fit the images.
        """
        config = replace(config, image_size=size, image_channels=channels)
        return cls(ConvEncoder(config), ConvDecoder(config), config.grid, config.latent_channels, domain)

    @classmethod
    def transformer(cls, config: ViTConfig, size: tuple[int, int], channels: int) -> Networks:
        """Vision transformers for images of this size and so many channels, whatever the configuration says.

        Raises:
            ValueError: the networks do not fit the images.
        """
        config = replace(config, image_size=size, image_channels=channels)
        return cls(ViTEncoder(config), ViTDecoder(config), config.grid, config.latent_channels)

    def for_partial_views(self, confidence: Confidence, image_channels: int) -> Networks:
        """The same for images that are seen in part.

        Args:
            confidence: "given" takes NaN for unseen pixels, "learned" predicts which are.
            image_channels: of the images.
        """
        if confidence == "none":
            return self
        with torch.random.fork_rng(devices=[]):  # what is drawn next is the same with and without
            visibility = Visibility(image_channels) if confidence == "learned" else None
        encoder = SeenPoints(self.encoder, self.grid, visibility)
        return self._replace(encoder=encoder, confidence=True, visibility=visibility)


class Method(Part, ABC):
    """A way to pre-train networks on observations that unknown transformations relate, and to use them afterwards.

    A subclass is one file of `niso.methods` and one line of its registry. It must say which `model` it trains and by
    which `objective`. What a method cannot do, it says by `has_maps` and by None.

    Args:
        config: settings of the experiment.
        networks: what the model is built around.

    Raises:
        ValueError: the settings do not fit the networks, e.g. a rank above the number of points.
    """

    views: ClassVar[int] = 2
    """Observations of an example: 2 for pairs (ψ, Tψ), 3 for triplets (ψ, Tψ, T²ψ)."""
    grouped: ClassVar[bool] = False
    """Whether several examples share one T: `group` consecutive ones of a batch."""
    has_maps: ClassVar[bool] = True
    """Whether it relates the latents of two observations by a map; `solve` is there only then."""
    isometric: ClassVar[bool] = True
    """Whether its maps are orthogonal, so that they leave the inner products of latent channels as they are."""
    commutes: ClassVar[bool] = False
    """Whether its maps commute with an operator, whose `eigenvalues` heads may know."""
    map_text: ClassVar[str] = "|τ|"
    """What a picture of its maps shows."""
    augmented_head: ClassVar[bool] = False
    """Whether its head learns invariance from transformed examples, being no invariant function of the latents."""

    compared: ClassVar[int] = 1
    """Fewest observations that a training step must see, in all processes together: losses compare them."""
    reads: ClassVar[frozenset[str]] = frozenset({"norm", "training", "evaluation_pairs", "classifier"})
    """Settings that it reads, of those that not all methods read: names, paths such as "training.steps", or groups such
    as "training". Methods of one experiment name the same groups. Take out of `Method.reads` what your method does not
    read: it would be ignored without a word. "classifier" and "spectrum" stand for the settings of the parts that they
    choose from, too, see `settings`."""

    model: Autoencoding
    """What is trained, moved and saved."""

    def __init__(self, config: MethodConfig, networks: Networks) -> None:
        self.config = config
        self.grid = networks.grid
        """Height and width of the latent grid, see `Networks`."""
        self.domain = networks.domain
        """Where its points lie."""
        if len(networks.grid) not in (2, 3):
            given = f"not {networks.grid}"
            raise TypeError(f"Networks.grid must be height and width, or (1, points), or three sides, {given}")
        self.model = self.build(networks)
        self._check_parts()
        self.visibility = networks.visibility
        """The part of the encoder that predicts which pixels are seen; None where it has none."""
        if networks.confidence and self.spectrum() is None:
            raise ValueError(
                "a confidence weighs points where coefficients are computed: choose a method with an operator"
            )
        self.precision: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Puts networks in the precision of the run, wherever they are called."""
        self.invariants_rounding: float | None = None
        """Rounding error of invariants in half precision, which `read_finely` measures; None where it did not."""

    def _check_parts(self) -> None:
        """TypeError where a subclass lacks a part, before anything is trained."""
        name, model = type(self).__name__, self.model
        parts = [getattr(model, part, None) for part in ("encoder", "decoder")]
        if not isinstance(model, Autoencoding) or not all(isinstance(part, nn.Module) for part in parts):
            raise TypeError(
                f"{name}.build must give a niso.autoencoding.Autoencoding with an `encoder` and a `decoder`"
            )
        if self.has_maps and type(self).solve is Method.solve:
            raise TypeError(f"{name} lacks `solve`: define it, or say has_maps = False")

    @classmethod
    def settings(cls) -> frozenset[str]:
        """Settings of `reads`, and those of the heads and spectra that it can have."""
        parts: dict[str, Collection[type[Part]]] = {
            "classifier": cls.heads().values(),
            "spectrum": SPECTRA.found().values(),
        }
        chosen = parts.keys() & cls.reads
        own = {f"{name}_settings" for name in chosen}
        return cls.reads.union(own, *(settings_of(parts[name]) for name in chosen))

    @classmethod
    def heads(cls) -> dict[str, type[Head]]:
        """Heads of `HEADS` that it can have, by name."""
        return {name: kind for name, kind in HEADS.found().items() if cls.commutes or not kind.of_operator}

    @classmethod
    def head_of(cls, config: ClassifierConfig) -> type[Head]:
        """The head that it takes: the one of the settings, or the first of those that it can have."""
        heads = cls.heads()
        return heads.get(config.classifier) or next(iter(heads.values()))

    @classmethod
    def heads_unread(cls, config: ClassifierConfig) -> dict[str, str]:
        """Settings of the heads that it can have and does not take, or that the one it takes does not read, and why."""
        if "classifier" not in cls.reads:
            return {}
        heads, chosen = cls.heads(), config.classifier
        if chosen in heads:
            return parts_unread("classifier", heads, chosen, config)
        why = f"{chosen} is for maps that commute with an operator, which this method lacks"
        return {"classifier": why} | unread_by(cls.head_of(config), config)

    def check_objective(self) -> None:
        """Check that the objective trains the model, before it does; the generator of the CPU stays as it is.

        Raises:
            InputError: it is no module, or holds other parameters.
        """
        name, make = type(self).__name__, self.objective
        with torch.random.fork_rng([]):
            objective = make() if callable(make) else make
        if not isinstance(objective, nn.Module):
            raise InputError(f"{name}.objective must give a torch.nn.Module, not {described(objective)}")
        held = set(map(id, objective.parameters()))
        if not all(id(parameter) in held for parameter in self.model.parameters()):
            raise InputError(
                f"{name}.objective does not hold the parameters of {name}'s model: keep the model as a submodule"
            )

    @abstractmethod
    def build(self, networks: Networks) -> Autoencoding:
        """The untrained model."""

    @abstractmethod
    def objective(self) -> nn.Module:
        """What pre-training minimises: (batch of views, progress) → scalar tensors by name, "loss" the total."""

    def completion(self, occlusion: RandomOcclusion) -> nn.Module:
        """What training under occlusion minimises, after pre-training: (batch of views, progress) → loss terms."""
        return CompletionObjective(self.model, occlusion, self.visibility, self.config.norm)

    def head(
        self, config: ClassifierConfig, examples: Float[Tensor, "batch length channels"], classes: int
    ) -> nn.Module:
        """An untrained classifier of features like these: by default the one of the settings, see `head_of`.

        Raises:
            InputError: its kind makes no module.
        """
        kind = self.head_of(config)
        head = kind.make(examples, classes, config, self.eigenvalues())
        if not isinstance(head, nn.Module):
            raise InputError(f"{kind.__name__}.make must give a torch.nn.Module, not {described(head)}")
        return RescaledHead(head, examples)

    @property
    def has_invariants(self) -> bool:
        """Whether it has maps, and they leave the inner products of latent channels as they are."""
        return self.has_maps and self.isometric

    @property
    def group(self) -> int:
        """Consecutive examples of a batch that share one T."""
        return 1

    def encode(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch rank channels"]:
        """Coefficients of observations, never below float32."""
        with self.precision():
            latents = self.model.encode(self._cast(x))
        return latents.to(torch.promote_types(latents.dtype, torch.float32))

    def decode(self, a: Float[Tensor, "batch rank channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from coefficients."""
        with self.precision():
            return self.model.decode(self._cast(a))

    def confidence(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch points"] | None:
        """How far each latent point of observations is trusted, in [0, 1]; None where all are alike."""
        return None

    def latents(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch points channels"]:
        """Latent functions E(x), before any basis."""
        with self.precision():
            z = self.model.encoder(self._cast(x))
        return z.to(torch.promote_types(z.dtype, torch.float32))

    def head_features(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch length channels"]:
        """What heads get of observations."""
        return self.encode(x)

    @torch.no_grad()
    def read_finely(self, x: Shaped[Tensor, "batch ..."]) -> None:
        """Let the networks run in full precision from here on where autocast rounds away what tells observations like
        these apart: their latents can be alike to a hundredth, and bfloat16 keeps two or three digits."""
        device = x.device.type
        with self.precision():
            if not autocasts(device):
                return
        self.model.eval()
        precision, rounded = self.precision, self.head_features(x)
        self.precision = partial(without_autocast, device)
        error = rounding_error(self.head_features(x), rounded)
        self.invariants_rounding = None if math.isnan(error) else error
        if not error >= ROUNDED:
            self.precision = precision
        elif process()[0] == 0:
            say(f"half precision errs by {error:.2f} of what invariants vary by: networks run in float32 from here")

    def solve(
        self, a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch rank rank"]:
        """Maps τ with τ a ≈ b between coefficients, as `encode` gives them.

        Raises:
            TypeError: the method has no maps.
        """
        raise TypeError(f"{type(self).__name__} has no maps")

    def spectrum(self) -> Spectrum | None:
        """The learned mass, eigenfunctions and eigenvalues; None where the method learns no operator."""
        return None

    def spectrum_at(self, sampling: Sampling) -> Spectrum | None:
        """The same at other points of the latent domain; None where it is known on the latent grid alone."""
        return None

    def eigenvalues(self) -> Float[Tensor, " rank"] | None:
        """Eigenvalues of the operator that its maps commute with; None where there is none."""
        return None

    def mask(self) -> Float[Tensor, "rank rank"] | None:
        """The mask that maps are solved under; None where there is none."""
        return None

    @torch.no_grad()
    def after_pretraining(self, pairs: Callable[[int], Batches], seed: int) -> None:  # most do nothing
        """What follows pre-training, before a head is trained.

        Args:
            pairs: gives batches of so many pairs (ψ, Tψ) in all; the same in all processes.
            seed: of what is drawn here.
        """
        return

    def _cast(self, x: Tensor) -> Tensor:
        """In float64 where the model is, or in half precision; integers stay."""
        parameter = [*self.model.parameters(), x][0]  # torch 2.6 cannot export a `next` with a tensor
        both = x.is_floating_point() and parameter.is_floating_point()  # weights may be complex
        return x.to(parameter.dtype) if both else x

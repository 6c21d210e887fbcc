"""Networks of observations of each kind, and the user's own."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from niso.checks import described
from niso.data.pairs.table import CHANNELS_FIRST, Kind
from niso.errors import InputError, foreign
from niso.experiments.alone import CUT, NORM, check_alone, depends, seeded
from niso.experiments.own import Own, check_module
from niso.experiments.pairs.recipes import Chosen
from niso.methods.method import Networks
from niso.networks import ConvConfig, MLPConfig, ViTConfig, on_grid
from niso.networks.levels import LevelsConfig, LevelsDecoder, LevelsEncoder
from niso.networks.pointwise import PointwiseNetwork
from niso.training.checkpoint import check_state
from niso.training.mode import buffers_kept, in_mode


def make_networks(chosen: Chosen, kind: Kind, shape: tuple[int, ...], own: Own | None = None) -> Networks:
    """Untrained networks for observations of a kind and shape.

    Raises:
        ValueError: they do not fit the observations.
        InputError: the user's own do not give what they should.
    """
    if own is not None:
        return _own(own, shape)
    first = kind in CHANNELS_FIRST
    channels = shape[0 if first else -1]
    grid = shape[1:] if first else (1, shape[0])
    match chosen.architecture:
        case "identity":
            unchanged: tuple[nn.Module, nn.Module] = nn.Identity(), nn.Identity()
            if first:
                unchanged = on_grid(*unchanged, grid)
            return Networks(*unchanged, grid, channels)
        case "pointwise":
            perceptron = MLPConfig(chosen.blocks, chosen.channels[-1])
            latent = chosen.latent_channels
            both = PointwiseNetwork(channels, latent, perceptron), PointwiseNetwork(latent, channels, perceptron)
            return Networks(*both, grid, latent)
        case "vit":
            size = shape[1], shape[2]
            vit = ViTConfig(size, channels, chosen.patch, chosen.channels[-1], chosen.blocks, 4, chosen.latent_channels)
            return Networks.transformer(vit, size, channels)
    named = ("channels", "blocks", "latent_channels", "patch", "padding", "normalised")
    settings: dict[str, Any] = {name: getattr(chosen, name) for name in named}
    if kind != "images":
        sides, kernel = (shape[1:], 3) if first else (shape[:1], 5)
        config = LevelsConfig(sides, channels, kernel=kernel, **settings)
        places = config.grid if first else (1, *config.grid)
        return Networks(LevelsEncoder(config), LevelsDecoder(config), places, config.latent_channels)
    size = shape[1], shape[2]
    conv = ConvConfig(image_size=size, image_channels=channels, stem_channels=chosen.channels[0], **settings)
    return Networks.convolutional(conv, size, channels)


def import_module_class(name: str) -> nn.Module:
    """An instance of the user's class `module:Class`, from an installed module or one in the working directory.

    Nothing is added to `sys.path`: a module of the working directory that imports others of it needs
    `python -m niso …`, which has that folder on its path, or to be a package.

    Raises:
        InputError: there is no such module or class, or it cannot be made without arguments.
    """
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise InputError(f"{name!r} is not module:Class, e.g. mynets:Encoder")
    with foreign(f"{name} cannot be made"):
        module = _module(module_name)
        try:
            kind = getattr(module, class_name)
        except AttributeError as error:
            raise InputError(f"{name}: {error}") from error
        made = kind()
    check_module(name, made)
    return made


def _module(name: str) -> object:
    """A module by its name; its first package may lie in the working directory, as for `python -m`."""
    first = name.partition(".")[0]
    if first not in sys.modules and PathFinder.find_spec(first) is None:
        spec = PathFinder.find_spec(first, [str(Path.cwd())])
        if spec is None or spec.loader is None:
            raise InputError(f"there is no module {first} in {Path.cwd()} nor among those installed")
        module = module_from_spec(spec)
        sys.modules[first] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[first]
            raise
    return importlib.import_module(name)


_FLOAT = "give both networks by .float(); a run in another precision converts them"


def _own(own: Own, shape: tuple[int, ...]) -> Networks:
    """The user's networks, with what their latents are found by a try."""
    encoder, decoder = own
    for net in own:
        check_state("the networks", net)
    dtypes = (p.dtype for net in own for p in net.parameters() if p.dtype.to_real() != torch.float32)
    other = next(dtypes, None)
    for count in (2, 3, 1):  # networks of one batch size fail here, and those that squeeze a batch of one
        fails = foreign(f"the networks do not take observations {(count, *shape)}")
        if other is not None:  # if they fail, that is why
            fails = foreign(f"the networks have weights of {other}, observations are float32", _FLOAT)
        with fails, torch.no_grad(), in_mode(encoder, False), in_mode(decoder, False):
            z = _latents(own, (count, *shape))
    if z.ndim == 3:
        return Networks(encoder, decoder, (1, z.shape[1]), z.shape[2])
    grid = tuple(z.shape[2:])
    return Networks(*on_grid(encoder, decoder, grid), grid, z.shape[1])


class Made(NamedTuple):
    """What both networks make of observations, or of one."""

    latents: Tensor
    values: Tensor


@torch.no_grad()
def check_independence(own: Own, shape: tuple[int, ...]) -> None:
    """Warn where, in training, what the networks make of an observation depends on the others of its batch: what is
    trained is then not what evaluation computes. The networks stay as they are.

    Raises:
        InputError: it does in evaluation, too, or depends on chance there; weights that train get no gradients; or the
            networks fail in training, which other tries do not see.
    """
    device = next(own.encoder.parameters(), torch.zeros(())).device
    x = torch.randn(5, *shape, generator=torch.Generator().manual_seed(0)).to(device)
    for training in (False, True):
        made, last = _tried(own, x, training)
        if training:
            _check_gradients(own, last)
        parts = zip(("encoder's latents", "decoder's values"), zip(*made, strict=True), strict=True)
        for part, (one, other, redrawn) in parts:
            if not training:
                check_alone(f"the {part}", one, other, redrawn)
            elif depends(one, other):
                problem = f"the {part} for an observation depend on the others of its batch"
                more = "as of batch normalisation, but not in evaluation"
                warnings.warn(f"in training {problem}, {more}: {NORM}", stacklevel=2)
                return


def _tried(own: Own, x: Tensor, training: bool) -> tuple[list[Made], Made]:
    """What the networks make of the first of five observations, beside two, beside the other two, and as at first with
    chance drawn anew; and all that they made last. Their buffers stay as they are.

    Raises:
        InputError: the networks fail.
    """
    made = list[Made]()
    mode = "training" if training else "evaluation"
    fails = foreign(f"the networks do not take observations in {mode} mode")
    with fails, in_mode(own.encoder, training), in_mode(own.decoder, training):
        for batch, seed in ((x[[0, 1, 2]], 0), (x[[0, 3, 4]], 0), (x[[0, 1, 2]], 1)):
            with buffers_kept(*own):
                last = _through(own, batch, seed, training)
            made.append(Made(*(part[0].detach() for part in last)))
    return made, last


def _through(own: Own, batch: Tensor, seed: int, gradients: bool) -> Made:
    """Latents and values of a batch, by random numbers of a seed, as of dropout."""
    with seeded(seed, batch.device), torch.set_grad_enabled(gradients):
        latents = own.encoder(batch)
        return Made(latents, own.decoder(latents.detach()))


def _check_gradients(own: Own, made: Made) -> None:
    """InputError where a network has weights that train, and what it made in training has no gradient."""
    for network, role, values in zip(own, ("encoder", "decoder"), made, strict=True):
        if not values.requires_grad and any(p.requires_grad for p in network.parameters()):
            raise InputError(f"the {role} {CUT}, or freeze it by requires_grad_(False)")


def _latents(own: Own, shape: tuple[int, ...]) -> Tensor:
    """Latents of observations of this shape, batch first; InputError where they, or what is decoded, do not fit."""
    encoder, decoder = own
    parameter = next(encoder.parameters(), torch.zeros(()))
    x = torch.zeros(shape, device=parameter.device)  # as observations are: networks of another type fail here
    z = encoder(x)
    if x._version:  # counts what is done in place
        raise InputError("the encoder changes its observations, which metrics need: make its first layer inplace=False")
    expected = "floating-point numbers, (batch, points, channels) or (batch, channels, height, width)"
    expected += ", or (batch, channels, depth, height, width)" if len(shape) == 5 else ""
    if (
        not isinstance(z, Tensor)
        or not z.is_floating_point()
        or not 3 <= z.ndim <= max(4, len(shape))
        or len(z) != len(x)
    ):
        raise InputError(f"the encoder's latents must be {expected}, not {described(z)}, for observations {shape}")
    back = decoder(z)
    if not isinstance(back, Tensor) or not back.is_floating_point() or back.shape != x.shape:
        raise InputError(f"the decoder gives {described(back)} for observations {shape}: they must be alike")
    return z

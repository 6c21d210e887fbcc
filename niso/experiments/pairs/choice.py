"""What is chosen from the data: networks, latent grid, rank, group; and how that is said."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from niso.config import Optimisation
from niso.data.pairs.sampling.data import PairData
from niso.data.pairs.split import PARTS
from niso.data.pairs.table import Kind, Table
from niso.errors import InputError, counted, some_of
from niso.experiments.diagnosis import OF_INVARIANTS
from niso.experiments.pairs.presets import Architecture, PairsConfig
from niso.experiments.pairs.recipes import Chosen, recipe
from niso.methods import METHODS
from niso.networks.padding import Padding

RESOLVED = {"architecture", "padding", "rank", "training"}
"""Settings that depend on more than what the user asks for. All others replace the recipe's where they are not None."""
AS_GIVEN = [field.name for field in fields(PairsConfig) if field.name in vars(Chosen()) and field.name not in RESOLVED]
MOST_POINTS: dict[Kind, int] = {"images": 400, "signals": 400, "points": 400, "volumes": 512}
"""Points of a latent grid: the cost of a step grows with them."""
MOST_RANK = 64
"""Eigenfunctions of a domain, where no other rank is asked for: the cost of a step grows with its cube."""
SIDE: dict[Kind, int] = {"images": 9, "signals": 32, "volumes": 8}
"""Side of the latent grid that is aimed at; homNIST's are 6 and 10."""
NARROWER = math.sqrt(3)
"""Ratio of widths of images and volumes: a convolution sees 27 samples in place of 9, at the same cost of a point."""
AT_EDGES: dict[str, Padding] = {"shift": "circular", "warp": "circular", "mobius": "longitude"}
"""Padding for transformations that go round."""
VARIATION = 0.2
"""Of the colours of crops: they are of few pictures."""
SAME_ENERGY = 0.01
"""Share by which the energy of a channel may change where T only moves values."""
NEARLY_ALL = 0.99
"""Share of the pairs whose energy T must keep."""


def choose(config: PairsConfig, data: PairData, method: str, own: bool) -> Chosen:
    """All settings of a run: the user's, and the recipe's adapted to the data.

    Args:
        method: name of the method that is trained.
        own: whether encoder and decoder are the user's own.

    Raises:
        InputError: no network fits observations of this shape, or a setting does not fit the data.
    """
    architecture = _architecture(config, data, method, own)
    base = recipe(config.effort, architecture)
    given = {"variation": VARIATION if data.table.cropped else 0.0} | _given(config, AS_GIVEN)
    training = _given(config.training)
    group = config.group_size or min(base.group, data.usual_group)
    optimisation = _of_length(base.training, training)
    if "batch_size" not in training:
        optimisation = replace(optimisation, batch_size=-(-optimisation.batch_size // group) * group)
    if config.group_size is None:  # the largest usual one that divides the batch; where none does, that is refused
        part = optimisation.batch_size // optimisation.accumulation
        group = next((size for size in range(group, 1, -1) if part % size == 0), group)
    try:
        chosen = replace(
            base,
            **given,
            architecture=architecture,
            group=group,
            training=optimisation,
        )
    except ValueError as error:  # of the method's own checks
        raise InputError(str(error)) from error
    wished = None if config.architecture == "identity" else config.latent_channels
    return replace(chosen, **_sizes(chosen, data, wished), padding=_padding(config, architecture, data.table.kind))


def keep(before: Chosen, config: PairsConfig) -> Chosen:
    """What a run chose when its training began, with what may be asked for since then: above all, another length."""
    training = _of_length(before.training, _given(config.training))
    return replace(before, **_given(config, AS_GIVEN), training=training)


def _given(settings: object, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Settings that are not None, by name: of all, or of some."""
    return {name: value for name in names or vars(settings) if (value := getattr(settings, name)) is not None}


def _of_length(usual: Optimisation, training: Mapping[str, Any]) -> Optimisation:
    """An optimisation with the settings that are asked for; with other steps, at most a fifth of them warm up."""
    optimisation = replace(usual, **training)
    if "steps" not in training:
        return optimisation
    return replace(optimisation, warmup_steps=min(usual.warmup_steps, optimisation.steps // 5))


def with_rank(chosen: Chosen, rank: int | None, points: int) -> Chosen:
    """The same with the rank that is asked for, whether it fits or not, or one that the points allow."""
    most = chosen.rank or MOST_RANK
    return replace(chosen, rank=rank or min(most, points))


def observed(table: Table) -> str:
    """What the observations of a table are, with their size."""
    if table.kind == "points":
        return f"functions of {counted(table.channels, 'channel')} on {counted(table.shape[0], 'point')}"
    return f"{table.kind} of {'×'.join(map(str, table.shape))}"


def said(chosen: Chosen, data: PairData, points: int, method: str) -> str:
    """What was chosen, in one line."""
    table, kind = data.table, METHODS.find(method)
    drawn = ", ".join(f"{data.count(part)} {word}" for part, word in PARTS.items())
    classes = f" in {len(table.classes)} classes ({some_of(list(map(str, table.classes)))})" if table.classes else ""
    varied = f"mirrored, turned and recoloured (variation {chosen.variation:g})" if chosen.variation else ""
    words = [
        f"{len(table):,} {observed(table)}{classes} ({drawn}), {data.paired}",
        f"{_NETWORKS[chosen.architecture]}{_PADDINGS[chosen.padding]}, {counted(points, 'latent point')}, "
        f"{counted(chosen.latent_channels, 'channel')}",
        *([f"rank {chosen.rank}"] if "rank" in kind.reads else []),
        f"method {method}{f' in groups of {chosen.group}' if kind.grouped else ''}",
        f"{counted(chosen.training.steps, 'step')} of {chosen.training.batch_size}",
    ]
    return "; ".join([*words, *filter(None, [varied, data.note, lacking(data)])])


def lacking(data: PairData) -> str:
    """Which classes accuracies do not speak of, for want of an observation to train on or held out; empty for none."""
    untaught, untested = data.lacking("train"), data.lacking("test")
    words = [
        f"no observation of {some_of(untaught)} to train on, so none is recognised" if untaught else "",
        f"none of {some_of(untested)} held out, so accuracies leave them out" if untested else "",
    ]
    return "; ".join(filter(None, words))


_PADDINGS: dict[Padding, str] = {
    "zeros": "",
    "circular": " that go round",
    "longitude": " that go round from left to right",
}
_NETWORKS = {
    "conv": "convolutions",
    "vit": "a vision transformer",
    "pointwise": "a perceptron at each point",
    "identity": "no networks, as T keeps the energy of observations",
    "own": "networks of your own",
}


def _architecture(config: PairsConfig, data: PairData, method: str, own: bool) -> Architecture:
    kind, asked = data.table.kind, config.architecture
    basis = "rank" in METHODS.find(method).reads
    if own:
        return "own"
    if asked == "auto":
        points = data.table.shape[0]
        if data.table.channels_first:
            return "conv"
        can = basis and not OF_INVARIANTS & METHODS.find(method).reads  # without networks invariants cannot be changed
        if can and points <= MOST_POINTS[kind] and moves_values(data):
            return "identity"
        return "conv" if kind == "signals" else "pointwise"
    if (asked == "vit" and kind != "images") or (asked == "conv" and kind == "points"):
        raise InputError(f"--architecture {asked} does not take {kind}: choose another")
    if asked == "pointwise" and data.table.channels_first:
        raise InputError(f"--architecture pointwise does not take {kind}: choose conv")
    return asked


def _padding(config: PairsConfig, architecture: Architecture, kind: Kind) -> Padding:
    """The padding that is asked for, or that of what T does at the edges."""
    if architecture != "conv":
        if config.padding is not None:
            networks = _NETWORKS[architecture]
            problem = f"and here there are {networks}" if architecture == "identity" else f"not for {networks}"
            other = ", or add --architecture conv" if architecture == "identity" and kind != "points" else ""
            raise InputError(f"--padding is for convolutions, {problem}: leave it out{other}")
        return "zeros"
    if config.padding == "longitude" and kind != "images":
        raise InputError(f"--padding longitude is for images: for {kind} that go round take circular")
    return config.padding or AT_EDGES.get(config.reading.transform or "", "zeros")


def moves_values(data: PairData) -> bool:
    """Whether T keeps the energy of every channel of (nearly) every observation, as maps that move values do. Where any
    two observations have the same energy, that says nothing: whether it keeps their values, in whichever order."""
    weights = data.table.weights
    mass = 1.0 if weights is None else torch.from_numpy(weights).float().to(data.device)[:, None]
    batches = [(x, tx) for x, tx, *_ in data.pairs("train", 512, torch.Generator().manual_seed(0))]
    x, tx = (torch.cat(views) for views in zip(*batches, strict=True))
    before, after = ((mass * view.square()).sum(1) for view in (x, tx))

    def kept(change: Tensor, most: float) -> float:
        return (change.abs() <= most * before).all(1).double().mean().item()

    if kept(after - before, SAME_ENERGY) < NEARLY_ALL:
        return False
    if kept(after.roll(1, 0) - before, SAME_ENERGY) < NEARLY_ALL:
        return True
    moved = (x.sort(1).values - tx.sort(1).values).square().sum(1)
    return weights is None and kept(moved, SAME_ENERGY) >= NEARLY_ALL


def _sizes(chosen: Chosen, data: PairData, wished: int | None) -> dict[str, Any]:
    """Patch, levels and latent channels that fit the observations; `wished` are channels that were asked for."""
    table = data.table
    if chosen.architecture == "identity":
        if wished not in (None, table.channels):
            raise InputError(
                "--latent-channels is of networks, and observations like these have none by default, but the channels "
                "that they have: leave it out, or give --architecture"
            )
        return {"latent_channels": table.channels}
    if table.kind == "points" or chosen.architecture in ("own", "pointwise"):
        return {}
    stride = _stride(table.shape[1:] if table.channels_first else table.shape[:1], table.kind)
    if chosen.architecture == "vit":
        return {"patch": stride}
    levels = min(len(chosen.channels), int(math.log2(stride)) + 1)
    widths = chosen.channels[-levels:]
    if table.kind == "volumes":
        widths = tuple(8 * max(1, round(width / NARROWER / 8)) for width in widths)
    return {"patch": stride // 2 ** (levels - 1), "channels": widths}


def _stride(sides: tuple[int, ...], kind: Kind) -> int:
    """The stride that divides the sides and makes the latent grid's nearest to the aim."""
    most = MOST_POINTS[kind]
    coarse = [
        stride for stride in (1, 2, 4, 8, 16, 32, 64) if math.prod(math.ceil(side / stride) for side in sides) <= most
    ]
    possible = [stride for stride in coarse if all(side % stride == 0 for side in sides)]
    if not possible:
        remedy = f"pad or crop their sides to multiples of {coarse[0]}" if coarse else "make them smaller"
        raise InputError(
            f"{kind} of {' × '.join(map(str, sides))} cannot be divided into a latent grid of at most {most} "
            f"points: {remedy}, or give your own --encoder and --decoder"
        )
    middle = math.exp(sum(map(math.log, sides)) / len(sides))
    return min(possible, key=lambda stride: abs(math.log(middle / stride / SIDE[kind])))

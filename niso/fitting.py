"""`niso.fit`: from arrays, tensors or a data set of pairs to a trained model, in one call.

It trains by the same experiment, recipes and loop as `niso run pairs`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from niso.config import Hardware
from niso.data.pairs.table import make_table
from niso.errors import InputError, Interrupted, nearest
from niso.experiments.experiment import Own
from niso.experiments.pairs.experiment import Given, Pairs, PairsResult, default_for
from niso.experiments.pairs.presets import PRESETS, PairsConfig
from niso.experiments.settings import Settings, check_choice
from niso.fitted import Array, Fitted
from niso.runs import runner
from niso.training.progress import quiet

NAME = "the data"


def fit(
    x: Any,
    tx: Array | None = None,
    *,
    ttx: Array | None = None,
    group: Array | None = None,
    label: Array | None = None,
    source: Array | None = None,
    points: Array | None = None,
    weights: Array | None = None,
    transform: str | None = None,
    method: str | None = None,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
    preset: str = "quick",
    steps: int | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    **settings: Any,
) -> Fitted:
    """Train an encoder whose latents transform by isometries on pairs of observations.

    Args:
        x, tx: observations and transformed ones, arrays or tensors: images (n, C, H, W) or (n, H, W), signals
            (n, L, C) or (n, L), functions on points (n, N, C). Or x alone, a data set (with `len` and `[]`) of pairs
            (x, tx) or triplets (x, tx, ttx).
        ttx: the observations transformed twice, for the methods of triplets.
        group: (n,) number of the transformation of each pair, where several pairs share one: the best there is.
        label: (n,) classes, for metrics of features.
        source: (n,) number of the recording or picture that each is a part of: those of one are held out together.
        points: (N, 2 or 3) coordinates of the points of functions, for figures.
        weights: (N,) their areas, which the learned mass starts from.
        transform: instead of `tx`, what niso applies to x: shift, rotation, affine, homography, colour or elastic of
            images, shift or warp of signals.
        method: see `niso.methods.METHODS`; by default niso-group where transformations are shared, and niso.
        encoder, decoder: your own modules; latents (batch, points, channels) or (batch, channels, height, width).
        preset: quick, standard or large.
        steps: instead of the preset's.
        device: "cpu" or "cuda"; a GPU where there is one by default.
        progress: show a bar on stderr, and what was chosen.
        seed: of everything random. The state of torch's generators is left alone.
        out: run folder to keep, with report and figures; by default one that is removed.
        **settings: other settings of `niso run pairs`, e.g. rank=16.

    Returns:
        The trained model, with metrics of held-out observations and a diagnosis.

    Raises:
        InputError: the data or a setting cannot be used; one line says why and what to do.
        TrainingError: the loss is not finite.
    """
    check_choice("preset", preset, PRESETS)
    config = _config(PRESETS[preset], transform, steps, settings)
    arrays = _arrays(x, tx)
    others = {"ttx": ttx, "group": group, "label": label, "source": source, "points": points, "weights": weights}
    for name, values in others.items():
        if values is not None:
            arrays[name] = _numpy(values)
    if (encoder is None) != (decoder is None):
        raise InputError("encoder and decoder go together: give both")
    own = None if encoder is None or decoder is None else Own(encoder, decoder)
    given = Given(make_table(NAME, arrays, config.reading), own)
    if method is None:
        method = default_for(arrays.keys())
    check_choice("method", method, Pairs.methods())
    made = list[_Kept]()

    def make(*words: Any) -> Pairs:
        kind = partial(_Kept, given=given)
        made.append(kind(*words))
        return made[0]

    hardware = Hardware(accelerator=_accelerator(device))
    all_settings = Settings("pairs", preset, config, method, seed, hardware=hardware)
    with _folder(out) as folder, _left_alone(hardware), nullcontext() if progress else quiet():
        try:
            metrics = runner.run(all_settings, folder, make=make, tune=False, report=out is not None)
        except Interrupted as error:
            if out is None:
                raise KeyboardInterrupt from error
            raise
    experiment = made[0]
    assert experiment.result is not None
    run = None if out is None else Path(out)
    return Fitted(experiment.method, all_settings, experiment.facts(), metrics, experiment.findings(metrics), run)


class _Kept(Pairs):
    """The experiment, which keeps its result."""

    result: PairsResult | None = None

    def evaluate(self) -> PairsResult:
        self.result = super().evaluate()
        return self.result


def _config(preset: PairsConfig, transform: str | None, steps: int | None, settings: Mapping[str, Any]) -> PairsConfig:
    """The preset with what a call asks for.

    Raises:
        InputError: there is no such setting, or its value is not allowed.
    """
    parts: dict[str, tuple[Any, dict[str, Any]]] = {
        "reading": (preset.reading, {} if transform is None else {"transform": transform}),
        "training": (preset.training, {} if steps is None else {"steps": steps}),
        "": (preset, {}),
    }
    for name, value in settings.items():
        for part, changes in parts.values():
            if name in {field.name for field in fields(part)}:
                changes[name] = value
                break
        else:
            known = [field.name for part, _ in parts.values() for field in fields(part)]
            raise InputError(f"unknown setting {name!r}{nearest(name, known)}")
    try:
        parts["reading"][1]["in_memory"] = True
        nested = {name: replace(part, **changes) for name, (part, changes) in parts.items() if name}
        return replace(preset, **nested, **parts[""][1])
    except ValueError as error:
        raise InputError(str(error)) from error


def _arrays(x: Any, tx: Array | None) -> dict[str, np.ndarray]:
    """Observations by name, of arrays or of a data set of pairs.

    Raises:
        InputError: items of a data set are not pairs or triplets of one shape.
    """
    if isinstance(x, np.ndarray | Tensor):
        return {"x": _numpy(x)} if tx is None else {"x": _numpy(x), "tx": _numpy(tx)}
    if not (hasattr(x, "__len__") and hasattr(x, "__getitem__")):
        raise InputError(f"x must be an array, a tensor or a data set of pairs, not {type(x).__name__}")
    if tx is not None:
        return {"x": _numpy(x), "tx": _numpy(tx)}
    items = [x[index] for index in range(len(x))]
    if not items or not all(isinstance(item, tuple | list) and len(item) in (2, 3) for item in items):
        raise InputError("items of a data set must be pairs (x, tx) or triplets (x, tx, ttx)")
    try:
        views = [np.stack([_numpy(view) for view in column]) for column in zip(*items, strict=True)]
    except ValueError as error:
        raise InputError(f"items of a data set must be alike: {error}") from error
    return dict(zip(("x", "tx", "ttx"), views, strict=False))


def _numpy(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
        return values.numpy()
    return np.asarray(values)


def _accelerator(device: str | torch.device | None) -> Any:
    if device is None:
        return "auto"
    kinds = {"cpu": "cpu", "cuda": "gpu"}
    try:
        return kinds[torch.device(device).type]
    except (KeyError, RuntimeError) as error:
        raise InputError(f"device must be cpu or cuda, not {device}") from error


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    """The run folder: a temporary one where none is asked for."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="niso-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "run"


@contextmanager
def _left_alone(hardware: Hardware) -> Iterator[None]:
    """Torch's generators and number of threads are afterwards as they were; meanwhile small SVDs have one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(hardware.threads)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)

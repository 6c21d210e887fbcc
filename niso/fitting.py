"""`niso.fit`: from arrays, tensors or a data set of pairs to a trained model, in one call.

It trains by the same experiment, recipes and loop as `niso run pairs`.
"""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import numpy as np
import torch
from PIL.Image import Image as Picture
from torch import Tensor, nn

from niso.config import Hardware, parse
from niso.data.pairs.table import make_table
from niso.errors import InputError, Interrupted, first_line, in_words_of_python, nearest
from niso.experiments.classifier import BACKBONE, Classifier
from niso.experiments.own import Own
from niso.experiments.pairs.experiment import OF_OWN, Given, Pairs, default_for
from niso.experiments.pairs.presets import PRESETS, PairsConfig
from niso.experiments.settings import Settings, check_known, check_method
from niso.fitted import Array, Beside, Fitted, check_dense
from niso.messages import quiet, to_python
from niso.runs import runner
from niso.training.compilation import compiler_left_alone
from niso.training.defaults import new_defaults

NAME = "the data"
COMMAND = "niso.fit(…)  # of a program"

USUAL = {
    "epochs": "steps",
    "max_steps": "steps",
    "lr": "learning_rate",
    "batch": "batch_size",
    "channels": "latent_channels",
    "k": "rank",
    "y": "label",
    "labels": "label",
}
"""Other names of settings, as other libraries call them."""
SPEEDS: tuple[str, ...] = get_args(get_type_hints(Hardware)["speed"])
NOT_ASKED = ("effort", "in_memory")
"""Settings of a run that follow from what else a call gives."""

_ONE_AT_A_TIME = threading.RLock()
"""Of the threads of a program one trains at a time: torch's generators are those of the whole process."""


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Messages name arguments where those of the command line name flags."""
    try:
        yield
    except InputError as error:
        raise InputError(in_words_of_python(str(error))) from error.__cause__


@_naming_arguments()
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
    speed: str = "auto",
    progress: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    **settings: Any,
) -> Fitted:
    """Train an encoder whose latents transform by isometries on pairs of observations.

    As `niso run pairs` does, it first measures what is fastest on this machine where networks are trained for 600 steps
    or more: precision, threads, compilation. With speed="exact" it trains in float32, on a CPU by one thread, and the
    same seed gives the same numbers, bit for bit.

    Args:
        x, tx: observations and transformed ones, arrays or tensors: images (n, C, H, W) or (n, H, W), volumes
            (n, C, D, H, W), signals (n, L, C) or (n, L), functions on points (n, N, C). Or x alone, a data set (with
            `len` and `[]`) of pairs (x, tx) or triplets (x, tx, ttx), of which each is read once.
        ttx: the observations transformed twice, for the methods of triplets.
        group: (n,) number of the transformation of each pair, where several pairs share one: the best there is.
        label: (n,) classes, for metrics of features, and for a classifier of them, see `Fitted.predict`.
        source: (n,) number of the recording or picture that each is a part of: those of one are held out together.
        points: (N, 1, 2 or 3) coordinates of the points of functions, for figures.
        weights: (N,) their areas, which the learned mass starts from.
        transform: instead of `tx`, what niso applies to x: shift, rotation, affine, homography, colour, elastic
            or mobius to images, shift or rotation to volumes, shift or warp to signals; the full list is in
            docs/how-to/own-data.md.
        method: see `niso.methods.METHODS`; by default niso-group where transformations are shared,
            niso-triplet where there is ttx, and else niso.
        encoder, decoder: your own modules, trained in place from what they are, and then in evaluation mode; latents
            (batch, points, channels) or (batch, channels, height, width).
        preset: quick, standard or large.
        steps: of the pre-training, instead of the preset's. Where there are labels, the head has steps of its own:
            head={"steps": 100}.
        device: "cpu" or "cuda"; a GPU where there is one by default.
        speed: "auto", or "exact". What was measured is kept in the user's cache, or in the folder that the environment
            variable NISO_SPEED_CACHE names; OMP_NUM_THREADS limits the threads. Networks that do not compute in
            bfloat16, or cannot be compiled, are trained without; all come back uncompiled.
        progress: show a bar on stderr, and what was chosen. Without, what is wrong is a warning.
        seed: of everything random. The state of torch's generators is left alone, and so are its defaults, which
            change nothing. Calls from several threads train one after another.
        out: run folder to keep, with report and figures; by default one that is removed. Where a call was interrupted,
            the same call goes on, and keeps what was chosen.
        **settings: other settings of `niso run pairs`, e.g. rank=16.

    Returns:
        The trained model, with metrics of held-out observations and a diagnosis.

    Raises:
        InputError: the data or a setting cannot be used; one line says why and what to do.
        TrainingError: the loss is not finite, or what the trained networks give in the evaluation.
        KeyboardInterrupt: a signal came, by Ctrl-C or SIGTERM; with `out` all is saved, and the same call goes on.
    """
    check_known("preset", preset, PRESETS)
    check_known("speed", speed, SPEEDS)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number from 0 on, not {seed!r}")
    given = {name: value for name, value in (("transform", transform), ("steps", steps)) if value is not None}
    config = _config(PRESETS[preset], {**settings, **given})
    arrays = _arrays(x, tx, transform is not None)
    others = {"ttx": ttx, "group": group, "label": label, "source": source, "points": points, "weights": weights}
    for name, values in others.items():
        if values is not None:
            arrays[name] = _numpy(values)
    own = Own.given(encoder, decoder)
    table = make_table(NAME, arrays, config.reading)
    if method is None:
        method = default_for(arrays.keys())
    check_method(method, Pairs.methods())
    _refuse_unread(settings, Pairs.unread(config, method, None) | (OF_OWN if own else {}))
    made = list[Pairs]()

    class Fit(Pairs):
        given = Given(table, own)

    def make(*words: Any, **before: Any) -> Pairs:
        made.append(Fit(*words, **before))
        return made[0]

    hardware = Hardware(accelerator=_accelerator(device), speed=cast(Any, speed))
    all_settings = Settings("pairs", preset, config, method, int(seed), hardware=hardware)
    words = to_python() if progress else quiet()
    with _folder(out) as folder, _left_alone(hardware), _lent(own), words:
        try:
            metrics = runner.run(all_settings, folder, make=make, tune=False, report=out is not None, command=COMMAND)
        except Interrupted as error:  # which programs that go on after an Exception do not catch
            raise KeyboardInterrupt("" if out is None else str(error)) from None
        for module in made[0].method.model.modules():
            module._compiled_call_impl = None
    experiment = made[0]
    experiment.method.precision = nullcontext  # that of the run, of single precision too, cannot be pickled
    run, head = None if out is None else folder, experiment.head
    return Fitted(
        experiment.method,
        all_settings,
        experiment.facts(),
        metrics,
        (*experiment.doubts, *experiment.findings(metrics, experiment.method_name)),
        run,
        None if head is None else Beside(BACKBONE, {}),
        None if head is None else Classifier(experiment.method, head),
    )


def _config(preset: PairsConfig, settings: Mapping[str, Any]) -> PairsConfig:
    """The preset with what a call asks for.

    Raises:
        InputError: there is no such setting, or its value is not allowed.
    """
    values = asdict(preset)
    values["reading"]["in_memory"] = True
    parts = values, values["training"], values["reading"]
    places = {name: part for part in parts for name in part if name not in NOT_ASKED}
    for part in ("training", "reading"):
        inner = settings.get(part)
        if isinstance(inner, Mapping) and (twice := settings.keys() & inner.keys() & values[part].keys()):
            name = min(twice)
            raise InputError(f"{name} is given twice, by itself and in {part}: give it once")
    for name, value in settings.items():
        if name not in places:
            other = USUAL.get(name)
            raise InputError(f"unknown setting {name!r}{f': it is {other}' if other else nearest(name, places)}")
        if isinstance(places[name][name], dict) and isinstance(value, Mapping):
            places[name][name].update(value)  # in place: another setting may be one of it
        else:
            places[name][name] = value
    return parse(PairsConfig, values, "niso.fit")


def _refuse_unread(named: Mapping[str, Any], unread: Mapping[str, str]) -> None:
    """InputError for a setting that would change nothing."""
    reasons = {path.removeprefix("reading."): why for path, why in unread.items()}
    reading = named.get("reading")
    for name in (*named, *(reading if isinstance(reading, Mapping) else ())):
        if name in reasons:
            raise InputError(f"{name} has no effect, leave it out: {reasons[name]}")


def _arrays(x: Any, tx: Array | None, single: bool) -> dict[str, np.ndarray]:
    """Observations by name, of arrays or of a data set of pairs.

    Args:
        single: whether items are single observations, which niso transforms itself.

    Raises:
        InputError: items of a data set are not pairs or triplets of one shape.
    """
    if isinstance(x, Mapping):
        raise InputError("x is a dictionary: give its arrays by name, niso.fit(x=…, tx=…), or as niso.fit(**x)")
    if isinstance(x, str | bytes | PathLike):
        raise InputError(
            "x is a path or a text: give an array, such as numpy.load reads from a file; `niso run pairs` reads files "
            "and folders of pictures and clips, and niso.load its run"
        )
    if not (hasattr(x, "__len__") and hasattr(x, "__getitem__")):
        batches = ": give its data set, x.dataset" if hasattr(x, "dataset") else ""
        raise InputError(f"x must be an array, a tensor or a data set of pairs, not {type(x).__name__}{batches}")
    if hasattr(x, "toarray"):  # of SciPy
        raise InputError("a sparse array is not read: give its toarray()")
    if tx is not None:
        return {"x": _numpy(x), "tx": _numpy(tx)}
    if hasattr(x, "__array__"):  # of NumPy, a tensor, a table of pandas, or an array of xarray or HDF5
        return {"x": _numpy(x)}
    items = [x[index] for index in range(len(x))]
    if items and all(isinstance(item, Picture) for item in items):
        raise InputError(
            "x is a list of pictures: give one array, numpy.stack([picture.convert('RGB').resize((64, 64)) for picture "
            "in x]).transpose(0, 3, 1, 2), or their folder to `niso run pairs`"
        )
    if single and items and not any(map(_is_pair, items)) and all(np.ndim(_numpy(item)) for item in items):
        return {"x": _numpy(items)}
    if not items or not all(isinstance(item, tuple | list) and len(item) in (2, 3) for item in items):
        raise InputError(
            "items of a data set must be pairs (x, tx) or triplets (x, tx, ttx); of single observations give an array, "
            "numpy.array(x)"
        )
    if np.ndim(_numpy(items[0][0])) and not all(np.ndim(_numpy(view)) for view in items[0][1:]):
        raise InputError(
            "items of a data set look like (x, label), not like pairs (x, tx): give single observations and labels as "
            "arrays, niso.fit(numpy.stack([…]), label=[…], transform=…)"
        )
    try:
        views = [np.stack([_numpy(view) for view in column]) for column in zip(*items, strict=True)]
    except ValueError as error:
        raise InputError(f"items of a data set must be alike, not of several lengths or shapes: {error}") from error
    return dict(zip(("x", "tx", "ttx"), views, strict=False))


def _is_pair(item: Any) -> bool:
    """Whether an item of a data set is no single observation: a tuple, or a list of two or three pictures."""
    several = isinstance(item, list) and len(item) in (2, 3)
    return isinstance(item, tuple) or (several and np.ndim(_numpy(item[0])) > 1)


def _numpy(values: Any) -> np.ndarray:
    """As an array; InputError where that cannot be."""
    if isinstance(values, Tensor):
        try:
            check_dense(values)
        except ValueError as error:
            raise InputError(str(error)) from error
        values = values.detach().cpu().resolve_conj().resolve_neg()
        values = values.float() if values.dtype == torch.bfloat16 else values
        try:
            return values.numpy()
        except TypeError as error:
            raise InputError(f"tensors of type {values.dtype} are not read: give integers or floats") from error
    if isinstance(values, list | tuple):  # perhaps of tensors, which numpy does not read where they have gradients
        values = [_numpy(value) if isinstance(value, Tensor | list | tuple) else value for value in values]
    try:
        array = np.asanyarray(values)
    except ValueError as error:
        raise InputError(f"arrays must be alike: bring them to one shape ({first_line(error)})") from error
    if array.dtype == object and all(isinstance(value, Real) for value in array.flat):
        return np.array(array.tolist())  # columns of pandas that may hold missing values, and do not
    return array


def _accelerator(device: str | torch.device | None) -> Any:
    if device is None:
        return "auto"
    kinds = {"cpu": "cpu", "cuda": "gpu"}
    try:
        chosen = torch.device(device)
        if chosen.index:
            raise InputError(f"device must be the first GPU, not {device}: set CUDA_VISIBLE_DEVICES={chosen.index}")
        if chosen.type == "cuda" and not torch.cuda.is_available():
            raise InputError("this machine has no GPU that torch can use: leave device= out")
        return kinds[chosen.type]
    except (KeyError, RuntimeError, TypeError) as error:
        raise InputError(f"device must be cpu or cuda, not {device}") from error


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    """The run folder: a temporary one where none is asked for."""
    if out is not None:
        yield Path(out).expanduser()
        return
    with tempfile.TemporaryDirectory(prefix="niso-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "run"


@contextmanager
def _lent(own: Own | None) -> Iterator[None]:
    """The user's networks are afterwards compiled, and their parameters trainable, as they were."""
    parts = [part for network in own or () for part in network.modules()]
    compiled = {part: part._compiled_call_impl for part in parts}
    trainable = {parameter: parameter.requires_grad for part in parts for parameter in part.parameters(recurse=False)}
    try:
        yield
    finally:
        for part, call in compiled.items():
            part._compiled_call_impl = call
        for parameter, requires_grad in trainable.items():  # which the training of a head has frozen
            parameter.requires_grad_(requires_grad)


@contextmanager
def _left_alone(hardware: Hardware) -> Iterator[None]:
    """Torch's generators, threads, TF32, defaults, compiler and current GPU are afterwards as they were; meanwhile
    defaults are those of a new process, and small SVDs have one thread, or as many as were chosen."""
    with _ONE_AT_A_TIME, compiler_left_alone():
        threads, rounded = torch.get_num_threads(), None
        with suppress(RuntimeError):  # where the program set it for some convolutions alone, by torch's newer switch
            rounded = torch.backends.cudnn.allow_tf32
        torch.set_num_threads(hardware.threads)
        try:
            on_gpu = hardware.accelerator != "cpu" and torch.cuda.is_available()
            forked = torch.random.fork_rng([0] if on_gpu else [])  # by default all GPUs, which would start each of them
            current = torch.cuda.device(0) if on_gpu else nullcontext()  # which a run makes the GPU that it uses
            with current, forked, new_defaults(), warnings.catch_warnings() if on_gpu else nullcontext():
                if on_gpu:  # torch's compiler advises to round products of float32 matrices, as niso does not
                    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
                yield
        finally:
            torch.set_num_threads(threads)
            if rounded is not None:
                torch.backends.cudnn.allow_tf32 = rounded

"""Trained models in folders: those of runs, and saved ones, which `niso.Fitted.save` writes.

A saved model is a folder with config.json and model.safetensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialize
from torch import Tensor

from niso.errors import CheckpointError, InputError
from niso.experiments.registered import naming_unknown
from niso.experiments.settings import Settings, without_places
from niso.files.folders import whole_folder
from niso.files.json import nan_for_null, parse_json, write_json
from niso.files.paths import in_shell
from niso.files.writing import refusing, write_atomically
from niso.training import checkpoint
from niso.training.run import WEIGHTS, Run, is_run

CONFIG, MODEL = "config.json", "model.safetensors"
"""Files of a saved model."""
FORMAT = "niso-model-1"
REBUILT = ("data", "chosen")
"""Facts of a run that say how its model is built."""


def plain_name(name: str) -> str:
    """Name of a weight, whether or not the module that has it was wrapped by `torch.compile`."""
    return name.replace("_orig_mod.", "")


class Saved(NamedTuple):
    """A trained model, of a run or saved.

    Attributes:
        settings: of the run that trained it.
        facts: enough to build the same networks again, see `Experiment.rebuild`.
        metrics: of held-out observations.
        tensors: weights by name; those that are stored in half precision are float32.
    """

    settings: Settings
    facts: Mapping[str, Any]
    metrics: Mapping[str, float]
    tensors: dict[str, Tensor]


def is_saved(folder: Path) -> bool:
    """Whether a folder holds a saved model."""
    return (folder / CONFIG).is_file()


def read_trained(folder: Path, check: Callable[[Settings, Mapping[str, Any]], None]) -> tuple[Path, Saved]:
    """The model in the folder of a finished run or of a saved model, and the file that holds its weights.

    Args:
        check: raises an InputError where the caller cannot use a model of these settings and facts; it is called before
            the user is told to finish a run.

    Raises:
        InputError: the folder is neither, a run is not trained to its end, or a file of settings is damaged.
        CheckpointError: the weights are missing or damaged.
    """
    if not is_run(folder) and is_saved(folder):
        saved = read_saved(folder)
        check(saved.settings, saved.facts)
        return folder / MODEL, saved
    run, weights = Run.open(folder), folder / WEIGHTS
    with naming_unknown(folder, run.facts):
        settings = Settings.of(run)
    check(settings, run.facts)
    if not (run.finished and weights.is_file()):  # one that is trained further keeps the weights of before
        raise InputError(f"{folder} is not trained to its end: finish it by {run.continuation}")
    anew = f"`niso evaluate {in_shell(folder)}` writes {WEIGHTS} anew from the checkpoints"
    return weights, Saved(settings, run.facts, run.metrics, checkpoint.load(weights, anew)[0])


def read_saved(folder: Path) -> Saved:
    """The content of a folder with a saved model. Nothing is unpickled, and nothing that it names is imported.

    Raises:
        InputError: config.json is missing, damaged, or not one of niso's.
        CheckpointError: the weights are missing or damaged.
    """
    source, weights = folder / CONFIG, folder / MODEL
    try:
        config = parse_json(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {source} ({error}): restore it from a copy") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise InputError(f"{folder} is not a model that niso saved: the format in {CONFIG} is not {FORMAT}")
    facts, metrics = config.get("facts"), config.get("metrics")
    if not isinstance(facts, dict) or not isinstance(metrics, dict):
        raise InputError(f"{source} is damaged: it has no facts or no metrics")
    keys = ("experiment", "preset", "method", "seed", "config")
    with naming_unknown(folder, facts):
        settings = Settings.load({key: config[key] for key in keys if key in config}, source)
    if not weights.is_file():
        raise CheckpointError(f"{folder} has no {MODEL}: restore it from a copy")
    try:
        tensors = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{weights} is damaged ({error}): restore it from a copy") from error
    halves = (torch.float16, torch.bfloat16)
    single = {name: tensor.float() if tensor.dtype in halves else tensor for name, tensor in tensors.items()}
    return Saved(settings, facts, {key: nan_for_null(value) for key, value in metrics.items()}, single)


def write_saved(folder: Path, saved: Saved, half: bool = False) -> None:
    """Inverse of `read_saved`, into a new or empty folder.

    Args:
        half: store networks in half precision; the spectrum stays as it is.

    Raises:
        InputError: the folder holds files, or cannot be written.
    """
    settings = without_places(saved.settings.dump())
    config = {
        "format": FORMAT,
        **{key: value for key, value in settings.items() if key not in ("data_dir", "hardware")},
        "facts": saved.facts,
        "metrics": saved.metrics,
    }
    tensors = {name: halved(name, tensor) if half else tensor for name, tensor in saved.tensors.items()}
    stored = {name: tensor.cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = serialize(stored, metadata={"format": "pt"})
    with refusing(f"write to {folder}"), whole_folder(folder, "folder") as place:
        write_json(place / CONFIG, config)
        write_atomically(place / MODEL, content)


def halved(name: str, tensor: Tensor) -> Tensor:
    """A weight of a network in half precision, where that can hold the values: the largest must lie in its range.

    The spectrum stays as it is, and so do numbers and vectors: means and variances of features are among them, which
    differ by more than half precision can hold.

    Args:
        name: of the weight, by which one of the spectrum is known.
    """
    if "spectrum" in name.split(".") or not tensor.is_floating_point() or not tensor.numel() or tensor.ndim < 2:
        return tensor
    largest, half = tensor.abs().max(), torch.finfo(torch.half)
    return tensor.half() if largest == 0 or half.smallest_normal <= largest <= half.max else tensor

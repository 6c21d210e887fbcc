"""`niso.load`: a trained model from a run folder, a saved folder, the package itself, or the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from niso.errors import CheckpointError, InputError, nearest
from niso.experiments import EXPERIMENTS
from niso.experiments.classifier import trained_classifier
from niso.experiments.own import Own
from niso.experiments.registered import OF_MODEL, check_registered, registered
from niso.experiments.saved import CONFIG, MODEL, Saved, is_saved, plain_name, read_trained
from niso.experiments.settings import Settings
from niso.fitted import Beside, Fitted, find_device
from niso.hub import SCHEME, bundled, repository
from niso.methods import METHODS
from niso.methods.method import Method
from niso.training import checkpoint
from niso.training.defaults import new_defaults
from niso.training.run import WEIGHTS, is_run, is_sweep


def load(
    path: str | Path,
    *,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> Fitted:
    """Load a trained model: nothing is unpickled, and no data is read.

    Of a run of shapes, whose encoder is trained on with the head, it is the model before that, which its decoder goes
    with; `Fitted.predict` uses the encoder after it.

    Args:
        path: a finished run folder of any experiment with one spectrum; its weights.safetensors; a folder of
            `Fitted.save`, or either of its files; the name of a model that comes with niso, see `niso models`, where no
            such folder is there; or "hf://owner/name" on the Hugging Face Hub, perhaps with "@revision".
        encoder, decoder: your own modules, where the model was trained with such ones.
        device: where it is to compute.

    Returns:
        The model, in evaluation mode.

    Raises:
        InputError: there is no trained model, or it cannot be built again; one line says why.
        CheckpointError: weights are missing, damaged, or of another model.
    """
    own, folder, place = Own.given(encoder, decoder), model_folder(path), find_device(device)
    weights, trained = read_trained(folder, partial(_check_method, folder))
    run = folder if is_run(folder) else None
    data = trained.facts.get("data")
    if run is None and own is None and isinstance(data, dict) and data.get("own_networks"):
        # the modules that a saved model names are not imported: it may be anybody's
        raise InputError(f"{folder} was trained with networks of your own: give niso.load encoder and decoder")
    return _built(run or folder / CONFIG, weights, trained, own, place, run)


def model_folder(path: str | Path) -> Path:
    """The folder of a run or of a saved model that a path or a name stands for, see `load`; perhaps downloaded.

    Raises:
        InputError: there is none.
    """
    if str(path).startswith(SCHEME):
        return repository.download(str(path))
    if not str(path):
        raise InputError("no model is named: give a run folder, or the name of a model that comes with niso")
    place = Path(path).expanduser()
    folder = place.parent if place.is_file() and place.name in (WEIGHTS, MODEL, CONFIG) else place
    if is_run(folder) or is_saved(folder):
        return folder
    if str(path) in bundled.names():
        return bundled.find(str(path)).folder
    if is_sweep(folder):
        raise InputError(f"{path} is a folder of several runs: give one of them")
    if folder.is_dir():
        raise InputError(f"{path} is neither a run folder nor a saved model: it has neither config.yaml nor {CONFIG}")
    if folder.is_file():
        raise InputError(f"{path} is neither a run folder nor a saved model: it is a file, give the run folder")
    raise InputError(
        f"{path} is neither a run folder nor a saved model: there is no such folder, and no model of that name comes "
        f"with niso{nearest(str(path), bundled.names())}"
    )


def _check_method(path: Path, settings: Settings, facts: Mapping[str, Any]) -> None:
    check_registered(path, settings, facts, OF_MODEL)
    if settings.method not in METHODS:
        raise InputError(f"{path} was trained by {settings.method}, which has no encoder whose latents could be used")


def _built(
    source: Path, weights: Path, trained: Saved, own: Own | None, device: torch.device, run: Path | None
) -> Fitted:
    settings, facts, metrics, tensors = trained
    kind = EXPERIMENTS.find(settings.experiment)
    try:
        if own is not None and not facts["data"].get("own_networks"):
            raise InputError(f"{source} was not trained with networks of your own: leave encoder and decoder out")
        with torch.random.fork_rng(devices=[]), new_defaults():  # untrained weights are drawn on the CPU
            config, networks = kind.rebuild(settings.config, facts, own)
            method = METHODS.find(settings.method)(config, networks)
        added = registered(settings, facts)
        own_code = [where for kind in OF_MODEL for where in added.get(kind, {}).values()]
        what = " or ".join(["settings that describe it", *own_code])
        changed = f"{what} were changed: restore them from a copy"
        remedy = changed if own is None else "give the encoder and decoder that it was trained with"
        beside = _restore(weights, tensors, method, remedy)
        method.model.to(device)
        with torch.random.fork_rng(devices=[]), new_defaults():
            data = facts["data"]
            shape, classes = tuple(data["shape"]), len(data.get("classes", ()))
            classifier = trained_classifier(method, config, shape, classes, beside.tensors)
        if classifier is not None:  # which has these weights
            beside = beside._replace(tensors={})
        findings = kind.findings(metrics, settings.method)
        return Fitted(method, settings, facts, metrics, findings, run, beside, classifier)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{source} does not say how its model is built ({problem}): train it again") from error


def _check_tensor(weights: Path, name: str, expected: Tensor, given: Tensor) -> None:
    known = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    if expected.is_floating_point() and given.dtype not in known:
        raise CheckpointError(f"{weights}: {name} holds {given.dtype}, no weights: restore it from a copy")
    if expected.is_floating_point() and not given.isfinite().all():
        raise CheckpointError(f"{weights}: {name} holds values that are not finite: restore it from a copy")


def _restore(weights: Path, tensors: dict[str, Tensor], method: Method, remedy: str) -> Beside:
    """Load the weights of a method's model, in their precision, from those of whatever holds it; what else it holds."""
    ours = method.model.state_dict(keep_vars=True)
    names = {plain_name(name): name for name in ours}
    expected = {plain: ours[name] for plain, name in names.items()}
    tensors = {plain_name(key): tensor for key, tensor in tensors.items()}
    last = next(reversed(expected), "")
    prefixes = [key.removesuffix(last) for key in tensors if key.endswith(last)]
    prefix = next((p for p in prefixes if all(f"{p}{name}" in tensors for name in expected)), None)
    if prefix is None:
        problem = "does not hold the weights of the model that its settings describe"
        raise CheckpointError(f"{weights} {problem}: {remedy}")
    for name, tensor in expected.items():
        _check_tensor(weights, name, tensor, tensors[f"{prefix}{name}"])
        tensor.data = tensor.data.to(tensors[f"{prefix}{name}"].dtype)
    inner = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    held = {f"model.{names.get(name, name)}": value for name, value in inner.items()}
    checkpoint.restore_weights(weights, held, method.model, remedy)
    return Beside(prefix, {key: value for key, value in tensors.items() if not key.startswith(prefix)})

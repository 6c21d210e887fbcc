"""One checkpoint format: a safetensors file of tensors with JSON facts in its header, replaced atomically.

It holds no pickle, so that a checkpoint from anywhere can be opened safely.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn, optim

from niso.config import Optimisation
from niso.errors import CheckpointError, InputError
from niso.files.json import parse_json
from niso.files.writing import refusing, write_atomically

Facts = dict[str, Any]
_RESTORE = "restore it from a copy, or delete it to start anew"
"""What to do about a damaged checkpoint."""


def save(path: Path, tensors: dict[str, Tensor], facts: Facts) -> None:
    """Write a checkpoint so that `path` holds either the old or the new one, whole, at any moment.

    Raises:
        CheckpointError: the disk is full or not writable; the checkpoint that was there is untouched.
    """
    data = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = serialize(data, metadata={"facts": json.dumps(facts)})
    kept = "the previous one is intact" if path.exists() else "none was there before"
    with refusing(f"save checkpoint {path}", note=f"; {kept}", kind=CheckpointError):
        write_atomically(path, content)


def load(path: Path, remedy: str = _RESTORE) -> tuple[dict[str, Tensor], Facts]:
    """Tensors (on the CPU) and facts of a checkpoint.

    Args:
        remedy: what the message advises where the file is damaged; empty where the caller adds it.

    Raises:
        CheckpointError: the file is missing, truncated, or not a checkpoint of niso.
    """
    with _opened(path, remedy) as (file, facts):
        return {name: file.get_tensor(name) for name in file.keys()}, facts


@contextmanager
def _opened(path: Path, remedy: str) -> Iterator[tuple[Any, Facts]]:
    """The file of a checkpoint, whose tensors are not yet read, and its facts. Errors as of `load`."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    with open(path, "rb"):  # of a file that may not be read safetensors says that it is not there
        pass
    try:
        with safe_open(path, framework="pt") as file:
            facts = parse_json((file.metadata() or {})["facts"])
            if not isinstance(facts, dict):
                raise ValueError("its facts are not an object")
            yield file, facts
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        advice = f": {remedy}" if remedy else ""
        raise CheckpointError(f"checkpoint {path} is truncated or not one of niso's ({error}){advice}") from error


def step_of(path: Path) -> int:
    """The step that the checkpoint of a phase is of, where its training goes on; 0 where there is none.

    Raises:
        CheckpointError: the checkpoint is damaged.
    """
    if not path.exists():
        return 0
    with _opened(path, _RESTORE) as (_, facts):
        return _told(path, facts)["step"]


def _told(path: Path, facts: Facts) -> Facts:
    """Facts that say how a phase was trained; CheckpointError where they do not."""
    kinds = {"step": int, "seconds": int | float, "determining": dict, "row": dict}
    if not all(isinstance(facts.get(name), kind) for name, kind in kinds.items()):
        raise CheckpointError(f"checkpoint {path} does not say how it was trained: delete it to start anew")
    return facts


def training_state(module: nn.Module, optimizer: optim.Optimizer) -> dict[str, Tensor]:
    """All tensors that exact resumption needs: "model.…" and "optimizer.<parameter>.<moment>"."""
    tensors = {f"model.{name}": tensor for name, tensor in module.state_dict().items()}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for parameter, moments in optimizer.state.items():
        for key, value in moments.items():
            tensors[f"optimizer.{names[id(parameter)]}.{key}"] = value
    return tensors


def check_state(what: str, module: nn.Module) -> None:
    """InputError where a module keeps state that checkpoints cannot hold; the message begins with what it is."""
    if others := [name for name, value in module.state_dict().items() if not isinstance(value, Tensor)]:
        raise InputError(
            f"{what}: {others[0]} is state that is no tensor, which checkpoints do not hold: make it a buffer"
        )


def determining(objective: nn.Module, optimisation: Optimisation) -> Facts:
    """What a phase is trained with, but for its length: the optimisation, and the weights of the objective."""
    weights = {name: value for name, value in vars(objective).items() if type(value) in (bool, int, float, str)}
    own = {name: value for name, value in weights.items() if name != "training" and not name.startswith("_")}
    return own | {name: value for name, value in asdict(optimisation).items() if name not in _LENGTH}


_LENGTH = ("steps", "cosine_steps", "warmup_steps", "accumulation")
"""Settings that may change where a run goes on. A warm-up may follow from the steps; the last is a matter of memory,
and of what losses that compare examples see."""


def length(optimisation: Optimisation) -> Facts:
    """What may change where a phase goes on, but not at its end: nothing would have been trained with it."""
    return {name: value for name, value in asdict(optimisation).items() if name in _LENGTH and name != "steps"}


def open_phase(path: Path, module: nn.Module, optimisation: Optimisation) -> tuple[dict[str, Tensor], Facts]:
    """Load the weights of a phase into its module; tensors and facts of the checkpoint.

    Raises:
        CheckpointError: the checkpoint is damaged or of another model.
        InputError: it lies beyond the steps, or was trained with other settings.
    """
    steps = optimisation.steps
    tensors, facts = load(path)
    _told(path, facts)
    restore_weights(path, tensors, module)
    if facts["step"] > steps:
        raise InputError(
            f"{path}: config.yaml asks for {steps} steps of phase {path.stem}, but {facts['step']} are trained: "
            "ask for as many or more, or start a new run"
        )
    trained, now = facts["determining"], determining(module, optimisation)
    if facts["step"] == steps:
        trained, now = trained | facts.get("length", {}), now | length(optimisation)
    for name in trained.keys() & now.keys():
        if trained[name] != now[name]:
            where = "config.yaml" if name in asdict(optimisation) else "the objective now"
            raise InputError(
                f"{path}: {where} has {name} {now[name]} for phase {path.stem}, which was trained with "
                f"{trained[name]}: undo that, or start a new run"
            )
    return tensors, facts


def restore_optimizer(tensors: dict[str, Tensor], module: nn.Module, optimizer: optim.Optimizer) -> None:
    """Load the moments of `training_state` into an optimizer of a module that has its weights."""
    optimizer.state.clear()
    for name, parameter in module.named_parameters():
        prefix = f"optimizer.{name}."
        moments = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        for key, value in moments.items():
            # on the parameter's device and in its memory layout, as the fused kernels expect
            like = parameter if value.shape == parameter.shape else value.to(parameter.device)
            optimizer.state[parameter][key] = torch.empty_like(like, dtype=value.dtype).copy_(value)


def restore_weights(
    path: Path,
    tensors: dict[str, Tensor],
    module: nn.Module,
    remedy: str = "undo the change of config.yaml or of your own code, or start a new run",
) -> None:
    """Load "model.…" tensors into a module.

    Args:
        remedy: what to do where they are of another one.

    Raises:
        CheckpointError: a tensor is missing, unexpected, or of another shape; names the first.
    """
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    expected = module.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        ours, theirs = (tuple(x[name].shape) if name in x else None for x in (expected, weights))
        if ours != theirs:
            described = (f"shape {shape}" if shape is not None else "nothing" for shape in (theirs, ours))
            raise CheckpointError(
                "checkpoint {} is of another model: {} has {} there and {} here; {}".format(
                    path, name, *described, remedy
                )
            )
    module.load_state_dict(weights)

"""The processes and devices that share a run, and what they agree on."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from niso.collective import PARENT
from niso.config import Hardware
from niso.errors import InputError
from niso.training.defaults import rounds_products
from niso.training.memory import keep_freed_memory

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_fabric(hardware: Hardware, prepare: Callable[[], object] | None = None, tune: bool = True) -> Fabric:
    """A launched lightning-fabric for this hardware; starts the other processes where there are several.

    From then on float32 means float32 in this process: a GPU's convolutions do not round to TF32, torch's default, nor
    products of matrices, whatever a program has set.

    Args:
        prepare: what the first process does before there are others, e.g. checks that may fail.
        tune: set the number of torch's threads and, on a CPU, make the C library keep freed memory. Both hold for the
            whole process: False leaves the settings of a program that calls niso as a library alone.

    Raises:
        InputError: this machine does not have the hardware, or a launcher has started another number of processes.
    """
    from lightning_fabric import Fabric  # slow to import
    from lightning_fabric.plugins.environments import ClusterEnvironment
    from lightning_fabric.strategies import DDPStrategy
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # not which process is which
    if tune:
        torch.set_num_threads(hardware.threads)
    # by the old switch: from torch 2.9 on the new one, fp32_precision, and this one must not be mixed
    torch.backends.cudnn.allow_tf32 = False
    if rounds_products():
        torch.set_float32_matmul_precision("highest")
    on_gpu = hardware.accelerator == "gpu" or (hardware.accelerator == "auto" and torch.cuda.is_available())
    several = hardware.devices * hardware.nodes > 1
    if hardware.nodes > 1 and not any(os.environ.get(name) for name in ("RANK", "SLURM_PROCID", "NODE_RANK")):
        raise InputError(f"{hardware.nodes} nodes need a launcher: start niso on each of them by torchrun or srun")
    if several or tune:  # a program may run one of its own in each process of a launcher
        _check_launcher(hardware)
    try:
        fabric = Fabric(
            accelerator="cuda" if on_gpu else "cpu",  # not what else Fabric finds: Apple's GPUs have no float64
            devices=hardware.devices,
            num_nodes=hardware.nodes,
            strategy="ddp" if several else "auto",
            **_precision(hardware),
        )
        if several:  # before there is a folder, not in `launch`
            environment = cast(DDPStrategy, fabric.strategy).cluster_environment
            cast(ClusterEnvironment, environment).validate_settings(hardware.devices, hardware.nodes)
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        requested = f"accelerator {hardware.accelerator}, {hardware.devices} devices"
        reason = " ".join(str(error).split())
        raise InputError(f"this machine cannot run with {requested}: {reason}") from error
    if prepare is not None and (first_process() or not several):
        prepare()
    if several:
        _end_with_parent()
    fabric.launch()
    if several and torch.distributed.get_backend() == "gloo":
        atexit.unregister(_let_gloo_finish)
        atexit.register(_let_gloo_finish)
    if tune and fabric.device.type == "cpu":
        keep_freed_memory()
    return fabric


def _check_launcher(hardware: Hardware) -> None:
    """Check that torchrun or SLURM has started as many processes as are asked for, where it starts them.

    Raises:
        InputError: it has not: some would be missing, or work on the same run by themselves.
    """
    from lightning_fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment

    asked, name = hardware.devices * hardware.nodes, None
    if TorchElasticEnvironment.detect():
        name, launcher, start = "WORLD_SIZE", "torchrun", "torchrun --nproc-per-node"
    elif asked > 1 and SLURMEnvironment.detect():  # one of several tasks of a job may be a run of its own
        # not SLURM_NTASKS, which a script has, too, though only srun starts its tasks
        name, launcher, start = "SLURM_STEP_NUM_TASKS", "SLURM", "srun --ntasks-per-node"
    started = int(os.environ.get(name) or 1) if name else asked
    if started != asked:
        raise InputError(
            f"{launcher} has started {started} process{'es' * (started > 1)} ({name}), but --devices "
            f"{hardware.devices} and --nodes {hardware.nodes} ask for {asked}: give other numbers, "
            f"or start niso by `{start} {hardware.devices}`"
        )


def _precision(hardware: Hardware) -> dict[str, Any]:
    """Fabric's setting of the precision.

    By itself Fabric rounds whole batches to bfloat16, targets and camera poses too; networks do that where it is due.
    """
    if not hardware.precision.endswith("mixed"):
        return {"precision": hardware.precision}
    from lightning_fabric.plugins import MixedPrecision

    class NetworksOnly(MixedPrecision):
        def convert_input(self, data: Any) -> Any:
            return data

    device = "cuda" if hardware.accelerator != "cpu" and torch.cuda.is_available() else "cpu"
    return {"plugins": [NetworksOnly("bf16-mixed", device)]}


def first_process() -> bool:
    """Whether this is the first of several processes, by what their launcher (torchrun, SLURM, Fabric) tells it."""
    ranks = ("RANK", "SLURM_PROCID", "NODE_RANK", "LOCAL_RANK")
    return not any(int(os.environ.get(name) or 0) for name in ranks)


def network_precision(fabric: Fabric) -> Callable[[], AbstractContextManager[Any]]:
    """What networks are called in outside the training loop, so that they run in the precision of the run.

    That is autocast for mixed precision and nothing for the others, whose networks have the precision of the run in
    their weights. (`fabric.autocast` of "64-true" changes torch's default dtype, also for what is drawn inside.)
    """
    from lightning_fabric.plugins import MixedPrecision  # slow to import

    return fabric.autocast if isinstance(fabric.strategy.precision, MixedPrecision) else nullcontext


def largest(fabric: Fabric, number: int) -> int:
    """The largest of all processes' numbers."""
    if fabric.world_size == 1:
        return number
    return int(cast(Tensor, fabric.all_reduce(torch.tensor(number, device=fabric.device), reduce_op="max")))


def mean(fabric: Fabric, terms: dict[str, float]) -> dict[str, float]:
    """Means over all processes' parts of the batch."""
    if fabric.world_size == 1 or not terms:
        return terms
    values = torch.tensor(list(terms.values()), dtype=torch.float64, device=fabric.device)
    return dict(zip(terms, cast(Tensor, fabric.all_reduce(values, reduce_op="mean")).tolist(), strict=True))


def _let_gloo_finish() -> None:
    """Before Python ends: gloo's threads take its lock to free what the last collective held.

    One that asks for the lock when Python has begun to end aborts the process, with status 134 (pytorch issue 190489).
    """
    time.sleep(0.2)  # without the lock


def _end_with_parent() -> None:
    """Make a process that Fabric starts end soon after the one that started it, whatever it is waiting for."""
    parent = os.getppid()
    if os.environ.get(PARENT) != str(parent):  # the first process, or one that another launcher started
        os.environ[PARENT] = str(os.getpid())  # for the processes that Fabric starts
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

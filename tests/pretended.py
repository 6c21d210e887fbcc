"""A GPU that is not there: its tensors are computed on the CPU, and say that they are on the GPU.

What a real one refuses is refused here: operations on tensors of two devices, indices on the GPU of a tensor on the
CPU, conversions to NumPy, pinning what is there, and numbers drawn there by a generator of the CPU. A single number on
the CPU may be combined with tensors on the GPU, but not stacked with them. Tensors on "cuda" say that they are on
"cuda:0". Those whose device gets lost, as that of gradients, may be anywhere.

`waits` has the files of niso in which the host waited for the GPU.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from lightning_fabric.accelerators.cpu import CPUAccelerator
from lightning_fabric.strategies import SingleDeviceStrategy
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import niso

CPU = torch.device("cpu")
GPU = torch.device("cuda")
FIRST = torch.device("cuda", 0)
ACROSS = {Tensor.copy_, Tensor.__setitem__, Tensor.__getitem__, torch._has_compatible_shallow_copy_type}
"""What may take tensors of two devices."""
JOINING = {torch.cat, torch.stack}
"""What takes no numbers of another device, either."""
WAITING = {
    *(Tensor.item, Tensor.tolist, Tensor.__bool__, Tensor.__float__, Tensor.__int__, Tensor.__index__),
    *(Tensor.nonzero, torch.nonzero, Tensor.unique, torch.unique, Tensor.masked_select, torch.masked_select),
}
"""What needs values of the GPU on the CPU."""
PLAIN = {
    *(Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.ndim.__get__, Tensor.requires_grad.__get__),
    *(Tensor.dim, Tensor.size, Tensor.numel, Tensor.is_floating_point, Tensor.__len__),
}
"""What asks for no value of a tensor: half of all calls."""
PACKAGE = Path(niso.__file__).parent
waits: list[str] = []


@contextmanager
def pretended_gpu() -> Iterator[torch.device]:
    """The device, while it is there."""
    with (
        Pretending(),
        patch.object(nn.Parameter, "__new__", _parameter),
        patch("torch.cuda.get_device_name", lambda *_: "pretended"),
        patch("torch.cuda.default_generators", (torch.Generator(),)),
    ):
        yield GPU


@contextmanager
def trained_there() -> Iterator[None]:
    """What Fabric trains on the CPU, it trains on the pretended GPU."""
    with (
        patch.object(SingleDeviceStrategy, "root_device", GPU),
        patch.object(CPUAccelerator, "setup_device", lambda *_: None),
    ):
        yield


def device_of(x: Tensor) -> torch.device | None:
    """Where a tensor would be; None where that is not known."""
    return getattr(x, "pretended_device", None)


def tensors_of(*values: Any) -> list[Tensor]:
    """The tensors among values, and in their tuples, lists and dictionaries."""
    found = list[Tensor]()
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, tuple | list):
            found += tensors_of(*value)
        elif isinstance(value, dict):
            found += tensors_of(*value.values())
    return found


class Pretending(TorchFunctionMode):
    """Notes for each tensor on which device it would be, and refuses what a GPU refuses."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in PLAIN:
            return function(*args, **kwargs)
        if function == Tensor.device.__get__:
            return FIRST if device_of(args[0]) == GPU else CPU
        if function == Tensor.is_cuda.__get__:
            return device_of(args[0]) == GPU
        if _waits(function, args, kwargs) and (file := _caller()):
            waits.append(file)
        if function in (Tensor.to, Tensor.cpu):
            return _to(*args, **kwargs) if function == Tensor.to else _to(args[0], CPU)
        if function == Tensor.data.__set__:  # as a module moves its parameters
            args[0].pretended_device = device_of(args[1])
            return function(*args)
        tensors = tensors_of(args, kwargs)
        self.check(function, args, kwargs, tensors)
        device = device_of(_main(function, args, tensors)) if tensors else CPU
        if "device" in kwargs:
            given = kwargs["device"]
            kwargs = {**kwargs, "device": None}
            device = device if given is None else _plain(given)
        result = function(*args, **kwargs)
        if device is not None:
            for tensor in tensors_of(result):
                tensor.pretended_device = device
        return result

    def check(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> None:
        """Refuse what a GPU refuses."""
        name = getattr(function, "__name__", str(function))
        where = {device_of(x) for x in tensors if x.dim() or device_of(x) == GPU or function in JOINING} - {None}
        if len(where) > 1 and (function not in ACROSS or _indexed_across(function, args)):
            raise RuntimeError(f"{name}: tensors on two devices, {[(tuple(x.shape), device_of(x)) for x in tensors]}")
        if function == Tensor.__getitem__ and device_of(args[0]) != GPU and GPU in where:
            raise RuntimeError("a tensor on the CPU cannot be indexed by one on the GPU")
        if function in (Tensor.numpy, Tensor.__array__) and device_of(args[0]) == GPU:
            raise TypeError("a tensor on the GPU cannot become an array")
        if function == Tensor.pin_memory and device_of(args[0]) == GPU:
            raise RuntimeError("only tensors on the CPU can be pinned, not those on the GPU")
        generator = kwargs.get("generator")
        if generator is not None and (_plain(kwargs.get("device") or CPU) == GPU or GPU in where):
            raise RuntimeError(f"{name}: a generator of the CPU cannot draw on the GPU")


def _indexed_across(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether values of one device are put at indices of a tensor on another."""
    if function != Tensor.__setitem__ or not tensors_of(args[1]) or not tensors_of(args[2]) or not args[2].dim():
        return False
    return len({device_of(args[0]), device_of(args[2])} - {None}) > 1


def _waits(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the host waits until the GPU has come so far, or copies to it without going on meanwhile."""
    there = bool(args) and isinstance(args[0], Tensor) and device_of(args[0]) == GPU
    if function == Tensor.to:
        aim = next((_plain(word) for word in args[1:] if isinstance(word, str | torch.device)), None)
        return (there and aim == CPU) or (not there and aim == GPU and not kwargs.get("non_blocking"))
    if function in (Tensor.__getitem__, Tensor.__setitem__):
        masks = [index for index in tensors_of(args[1]) if index.dtype == torch.bool]
        return there and bool(masks)
    return there and (function in WAITING or function == Tensor.cpu)


def _caller() -> str:
    """The file of niso that is running; empty where there is none."""
    frame = sys._getframe(1)
    while frame is not None and not Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        frame = frame.f_back
    return "" if frame is None else Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()


def _plain(device: Any) -> torch.device:
    return torch.device(torch.device(device).type)


def _main(function: Any, args: tuple[Any, ...], tensors: list[Tensor]) -> Tensor:
    """The argument whose device is that of the result: numbers on the CPU may be combined with all others."""
    if function in ACROSS:
        return args[0]
    return next((x for x in tensors if x.dim() and device_of(x)), tensors[0])


def _to(x: Tensor, *words: Any, non_blocking: bool = False, **named: Any) -> Tensor:
    device, dtype = named.pop("device", None), named.pop("dtype", None)
    for word in words:
        if isinstance(word, Tensor):
            device, dtype = device_of(word) or CPU, word.dtype
        elif isinstance(word, torch.dtype):
            dtype = word
        elif isinstance(word, str | torch.device):
            device = word
    device = device_of(x) if device is None else _plain(device)
    moved = x if dtype is None else x.to(dtype, **named)
    if moved is x and device != device_of(x):
        moved = x.clone()
    moved.pretended_device = device
    return moved


_new_parameter: Callable[..., nn.Parameter] = nn.Parameter.__new__


def _parameter(kind: type[nn.Parameter], data: Tensor | None = None, requires_grad: bool = True) -> nn.Parameter:
    parameter = _new_parameter(kind, data, requires_grad)
    if data is not None:
        parameter.pretended_device = device_of(data)
    return parameter

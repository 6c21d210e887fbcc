"""A GPU that is not there: its tensors are computed on the CPU, and say that they are on the GPU.

What a real one refuses is refused here: operations on tensors of two devices, indices on the GPU of a tensor on the
CPU, conversions to NumPy, pinning what is there, and numbers drawn there by a generator of the CPU. A single number on
the CPU may be combined with tensors on the GPU, but not stacked with them. Tensors on "cuda" say that they are on
"cuda:0". Those whose device gets lost, as that of gradients, may be anywhere.

`waits` has the files of niso in which the host waited for the GPU.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
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
MAY_WAIT = WAITING | {Tensor.to, Tensor.cpu, Tensor.__getitem__, Tensor.__setitem__}
PLAIN = {
    *(Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.ndim.__get__, Tensor.requires_grad.__get__),
    *(Tensor.layout.__get__, Tensor.is_leaf.__get__, Tensor.grad_fn.__get__, Tensor.is_sparse.__get__),
    *(Tensor.dim, Tensor.size, Tensor.numel, Tensor.__len__, Tensor.stride, Tensor.is_contiguous, Tensor.__hash__),
    *(Tensor.is_floating_point, Tensor.is_complex, torch.is_floating_point, torch.is_complex, torch.promote_types),
    *(Tensor.data_ptr, Tensor.untyped_storage, torch._C._set_grad_enabled, Tensor.requires_grad.__set__),
}
"""What asks for no value of a tensor: half of all calls."""
PLAIN_TYPES = {int, float, bool, str, slice, torch.dtype, torch.device, type(None), type(...)}
"""Neither tensors nor what may hold them."""
DEVICE, IS_CUDA, SET_DATA = Tensor.device.__get__, Tensor.is_cuda.__get__, Tensor.data.__set__
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
    _gather(values, found)
    return found


def _gather(values: Iterable[Any], found: list[Tensor]) -> None:
    for value in values:
        if type(value) in PLAIN_TYPES:
            continue
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            _gather(value, found)
        elif isinstance(value, dict):
            _gather(value.values(), found)


class Pretending(TorchFunctionMode):
    """Notes for each tensor on which device it would be, and refuses what a GPU refuses."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in PLAIN:
            return function(*args, **kwargs or {})
        if function == DEVICE:
            return FIRST if device_of(args[0]) == GPU else CPU
        if function == IS_CUDA:
            return device_of(args[0]) == GPU
        kwargs = kwargs or {}
        if function in MAY_WAIT and _waits(function, args, kwargs) and (file := _caller()):
            waits.append(file)
        if function == Tensor.to:
            return _to(*args, **kwargs)
        if function == Tensor.cpu:
            return _to(args[0], CPU)
        if function == SET_DATA:  # as a module moves its parameters
            args[0].pretended_device = device_of(args[1])
            return function(*args)
        tensors = tensors_of(args, kwargs)
        devices = [device_of(x) for x in tensors]
        self.check(function, args, kwargs, tensors, devices)
        device = _main(function, args, tensors, devices) if tensors else CPU
        if "device" in kwargs:
            given = kwargs["device"]
            kwargs = {**kwargs, "device": None}
            device = device if given is None else _plain(given)
        result = function(*args, **kwargs)
        if device is not None:
            for tensor in (result,) if type(result) is Tensor else tensors_of(result):
                tensor.pretended_device = device
        return result

    def check(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
        devices: list[torch.device | None],
    ) -> None:
        """Refuse what a GPU refuses."""
        where = set(devices) - {None}
        if len(where) > 1 and function not in JOINING:  # numbers on the CPU may be combined with all others
            where = {device for x, device in zip(tensors, devices, strict=True) if device == GPU or x.dim()} - {None}
        if len(where) > 1 and (function not in ACROSS or _indexed_across(function, args)):
            found = [(tuple(x.shape), device) for x, device in zip(tensors, devices, strict=True)]
            raise RuntimeError(f"{_name(function)}: tensors on two devices, {found}")
        if GPU in where and function == Tensor.__getitem__ and device_of(args[0]) != GPU:
            raise RuntimeError("a tensor on the CPU cannot be indexed by one on the GPU")
        if GPU in where and function in (Tensor.numpy, Tensor.__array__):
            raise TypeError("a tensor on the GPU cannot become an array")
        if GPU in where and function == Tensor.pin_memory:
            raise RuntimeError("only tensors on the CPU can be pinned, not those on the GPU")
        generator = kwargs.get("generator")
        if generator is not None and (_plain(kwargs.get("device") or CPU) == GPU or GPU in where):
            raise RuntimeError(f"{_name(function)}: a generator of the CPU cannot draw on the GPU")


def _name(function: Any) -> str:
    return getattr(function, "__name__", str(function))


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
    while frame is not None and not (file := _file(frame.f_code.co_filename)):
        frame = frame.f_back
    return "" if frame is None else file


@cache
def _file(name: str) -> str:
    """A file's path in niso; empty for one of others."""
    return Path(name).relative_to(PACKAGE).as_posix() if Path(name).is_relative_to(PACKAGE) else ""


@cache
def _plain(device: Any) -> torch.device:
    return torch.device(torch.device(device).type)


def _main(
    function: Any, args: tuple[Any, ...], tensors: list[Tensor], devices: list[torch.device | None]
) -> torch.device | None:
    """The device of the result: numbers on the CPU may be combined with all others."""
    if function in ACROSS:
        return device_of(args[0])
    if len(set(devices)) == 1:
        return devices[0]
    return next((device for x, device in zip(tensors, devices, strict=True) if device and x.dim()), devices[0])


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

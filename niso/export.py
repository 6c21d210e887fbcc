"""Trained models as programs for torch (pt2), of which only map needs niso's code, or for ONNX runtimes."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from niso.data.pairs.units import LOST
from niso.errors import InputError, NisoError, first_line
from niso.experiments.classifier import Classifier
from niso.files.writing import write_atomically
from niso.fitted import Fitted
from niso.methods.method import Method
from niso.spectrum import FixedSpectrum

Format = Literal["pt2", "onnx"]
TOLERANCE = 1e-5
"""Largest difference of an ONNX runtime's numbers from torch's, relative to the largest number, or to 1."""
INSTALL = "pip install onnx 'onnxscript>=0.6' onnxruntime"


class Program(nn.Module):
    """Base of what is exported: a method, by default the model's, and the units of observations.

    Attributes:
        gives: name of the output.
        gives_channels: whether channels are the last axis of the output, as of the inputs.
    """

    gives: ClassVar[str]
    gives_channels: ClassVar[bool] = True
    offset: Tensor
    scale: Tensor

    def __init__(self, fitted: Fitted, method: Method | None = None) -> None:
        super().__init__()
        self.method = frozen(method or fitted.method)
        self.model = self.method.model  # whose parameters are then the program's
        shape = (-1, *[1] * (len(fitted.shape) - 1)) if fitted.units.channels_first else (-1,)
        offset, scale = (torch.tensor(part, dtype=fitted.dtype).reshape(shape) for part in fitted.units.scaling)
        self.register_buffer("offset", offset)
        self.register_buffer("scale", scale)
        self.clip = fitted.units.clip

    def scaled(self, x: Tensor) -> Tensor:
        """Observations in these units, as the networks take them."""
        x = (x - self.offset) / self.scale
        return x if self.clip is None else x.clamp(-self.clip, self.clip)

    def encode(self, x: Tensor) -> Tensor:
        """Coefficients of observations in these units."""
        return self.method.encode(self.scaled(x))


class Encode(Program):
    """Observations, in the units of those trained on, to coefficients."""

    gives = "a"

    def forward(self, x: Tensor) -> Tensor:
        """Coefficients (batch, rank, channels)."""
        return self.encode(x)


class Decode(Program):
    """Coefficients to observations, in the units of those trained on."""

    gives = "x"

    def forward(self, a: Tensor) -> Tensor:
        """Observations (batch, …)."""
        return self.method.decode(a) * self.scale + self.offset


class Solve(Program):
    """Observations and transformed ones to maps."""

    gives = "tau"
    gives_channels = False

    def forward(self, x: Tensor, tx: Tensor) -> Tensor:
        """Maps (batch, rank, rank)."""
        return self.method.solve(self.encode(x), self.encode(tx))


class Predict(Program):
    """Observations to probabilities of `Fitted.classes`."""

    gives = "probabilities"
    gives_channels = False

    def __init__(self, fitted: Fitted, classifier: Classifier) -> None:
        super().__init__(fitted, classifier.method)
        self.classifier = Classifier(self.method, copy.deepcopy(classifier.head).cpu().eval())

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities (batch, classes)."""
        return self.classifier(self.scaled(x)).softmax(-1)


def export(fitted: Fitted, folder: Path, form: Format) -> dict[Path, str]:
    """Write encode and decode; as pt2, where the method has maps, map; and where there is a classifier, predict: each a
    file for batches of any size.

    Where the model takes any number of channels, so do programs. In ONNX what they take and give is x, a and
    probabilities.

    Returns:
        For each file what its program takes and gives, as "float32 (batch, 32, 1) → (batch, 8, 1)".

    Inputs and outputs are float32, or float64 where the model is. ONNX has no singular value decomposition, which maps
    need. Programs in ONNX are compared with torch where onnxruntime is installed.

    Raises:
        InputError: a package that ONNX needs is missing, a part of the model cannot be exported, or single precision
            does not hold its observations.
        NisoError: an ONNX program computes something else than torch.
    """
    if form == "onnx":
        _check_onnx()
    dtype = fitted.dtype
    if dtype != torch.float64 and fitted.units.rounded_away() > LOST:
        raise InputError(
            "values lie so far from 0, beside how much they vary, that the programs' single precision does not hold "
            "them: train on values less their mean"
        )
    generator = torch.Generator().manual_seed(0)
    offset, scale = (sum(part) / len(part) for part in fitted.units.scaling)
    x = torch.randn((2, 2, *fitted.shape), generator=generator).to(dtype) * scale + offset
    with torch.no_grad():
        encode = Encode(fitted).to(dtype)
        programs: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
            "encode": (encode, (x[0],)),
            "decode": (Decode(fitted).to(dtype), (encode(x[0]),)),
        }
        if form == "pt2" and fitted.method.has_maps:
            programs["map"] = Solve(fitted).to(dtype), (x[0], x[1])
        if fitted.classifier is not None:
            programs["predict"] = Predict(fitted, fitted.classifier).to(dtype), (x[0],)
        free = fitted.any_channels
        contents = {folder / f"{name}.{form}": content_of(name, *parts, free, form) for name, parts in programs.items()}
        axes = [
            f"{_axes(inputs, free)} → {_axes([module(*inputs)], free and module.gives_channels)}"
            for module, inputs in programs.values()
        ]
    for path, content in reversed(contents.items()):  # encode last: without it, the rest was not finished
        write_atomically(path, content)
    if fitted.classes:  # which a program does not hold
        axes[-1] += f" of {', '.join(map(str, fitted.classes))}"
    return {path: f"{str(dtype).removeprefix('torch.')} {own}" for path, own in zip(contents, axes, strict=True)}


def _axes(tensors: Iterable[Tensor], free: bool) -> str:
    """Axes of a program's inputs, or of its output; free: the last has any size."""
    sizes = (("batch", *map(str, tensor.shape[1:-1]), "channels" if free else tensor.shape[-1]) for tensor in tensors)
    return ", ".join(f"({', '.join(map(str, own))})" for own in sizes)


def frozen(method: Method) -> Method:
    """A copy on the CPU, in its own precision, whose spectrum is what was learned: numbers, not how they were
    parametrised."""
    method = copy.copy(method)
    method.precision = nullcontext
    method.model = copy.deepcopy(method.model).cpu().eval().requires_grad_(False)
    if (spectrum := method.spectrum()) is not None:
        method.model.spectrum = FixedSpectrum(*spectrum)
    return method


def content_of(name: str, module: Program, inputs: tuple[Tensor, ...], free: bool, form: Format) -> bytes:
    """A program's file, for batches of any size and, where free, any number of channels.

    Raises:
        InputError: a package that ONNX needs is too old, or the program cannot be exported.
        NisoError: in ONNX it computes something else than in torch.
    """
    axes = {0: torch.export.Dim("batch", min=1)}
    if free:
        axes[inputs[0].ndim - 1] = torch.export.Dim("channels", min=1)
    try:
        with _silent():
            program = torch.export.export(module.eval(), inputs, dynamic_shapes=tuple(axes for _ in inputs))
            if form == "pt2":
                for node in program.graph.nodes:
                    node.meta.pop("stack_trace", None)  # it names folders of this machine
                program._example_inputs = None  # larger than the weights, maybe; the property of torch 2.6 refuses None
                file = io.BytesIO()
                torch.export.save(program, file)
                return file.getvalue()
            converted = torch.onnx.export(program, inputs, dynamo=True, verbose=False, output_names=[module.gives])
    except Exception as error:  # exporters raise errors of many kinds
        cause: BaseException = error
        while cause.__cause__ is not None:  # what is around it says where in an exporter
            cause = cause.__cause__
        problem = first_line(cause)
        if form == "onnx" and isinstance(cause, ImportError):  # torch needs newer packages
            raise InputError(f"torch {torch.__version__} and onnxscript do not fit ({problem}): {INSTALL}") from error
        advice = "" if form == "pt2" else ": choose --format pt2"
        raise InputError(f"{name} of this model cannot be exported as {form} ({problem}){advice}") from error
    assert converted is not None
    model = converted.model_proto
    _tidy(model.graph)
    content: bytes = model.SerializeToString()
    _check_same(content, name, module, inputs)
    return content


def _tidy(graph: Any) -> None:
    """Give axes of any size their names, which exporters call s77 or so, and leave out how the graph was made.

    That names folders of this machine.
    """
    first, *_, last = graph.input[0].type.tensor_type.shape.dim
    names = {last.dim_param: "channels", first.dim_param: "batch"}
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = names.get(axis.dim_param, axis.dim_param)
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.ClearField("metadata_props")


@contextmanager
def _silent() -> Iterator[None]:
    """Without what torch's exporters say: warnings, logging and, where they fail, a graph on stderr."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _check_onnx() -> None:
    if find_spec("onnxscript") is None:
        raise InputError(f"--format onnx needs other packages: {INSTALL}")


def _check_same(content: bytes, name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Compare with torch, on batches of several sizes, where onnxruntime is installed."""
    try:
        import onnxruntime
    except ImportError:
        return
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as refusal:  # e.g. of a convolution in float64, which it does not have
        problem = " ".join(str(refusal).split())
        raise InputError(f"onnxruntime cannot run {name} of this model ({problem}): choose --format pt2") from refusal
    names = [given.name for given in session.get_inputs()]
    for size in (1, 2, 5):
        batch = [part[torch.arange(size) % len(part)] for part in inputs]
        there = session.run(None, {name: part.numpy() for name, part in zip(names, batch, strict=True)})[0]
        here = module(*batch).numpy()
        error = float(np.abs(there - here).max() / max(1.0, np.abs(here).max()))
        if not error <= TOLERANCE:
            raise NisoError(f"{name} in ONNX would differ from torch by {error:.1e}: choose --format pt2")

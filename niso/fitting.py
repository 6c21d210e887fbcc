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
from niso.data.pairs.sampling import BATCH, scaled, unscaled
from niso.data.pairs.table import Scaling, make_table
from niso.errors import InputError, Interrupted, nearest
from niso.experiments.pairs.diagnosis import Finding
from niso.experiments.pairs.experiment import GROUPED, Given, Pairs, PairsResult
from niso.experiments.pairs.networks import Own
from niso.experiments.pairs.presets import PRESETS, PairsConfig
from niso.experiments.settings import Settings, check_choice
from niso.methods.method import Method
from niso.networks.vector_neurons import inner_products
from niso.runs import runner
from niso.spectrum import Spectrum
from niso.training.progress import quiet

Array = np.ndarray | Tensor
NAME = "the data"


class Fitted:
    """A trained model of the user's pairs, to be used: what `fit` returns.

    It takes observations as `fit` did, in the same units. Of NumPy arrays it makes NumPy arrays, of tensors tensors on
    the same device. Everything is computed in evaluation mode, without gradients.

    Attributes:
        method: the trained method; `method.model` is the module, e.g. a `niso.NeuralIsometry`.
        metrics: of held-out observations, by the keys of `niso run pairs`.
        diagnosis: what these say, what is wrong first; each has a text, `str(finding)`.
        run: the run folder with report, figures and weights; None where no `out` was asked for.
        facts: what was read and chosen, enough to build the same networks again.
    """

    def __init__(
        self,
        method: Method,
        scaling: Scaling,
        shape: tuple[int, ...],
        facts: Mapping[str, Any],
        metrics: Mapping[str, float],
        diagnosis: tuple[Finding, ...] = (),
        run: Path | None = None,
    ) -> None:
        self.method, self.facts, self.metrics, self.diagnosis, self.run = method, facts, dict(metrics), diagnosis, run
        self._scaling, self._shape = scaling, shape
        method.model.eval().requires_grad_(False)

    @property
    def spectrum(self) -> Spectrum | None:
        """Mass, eigenfunctions (points, k) and eigenvalues (k,), on the CPU; None where the method learns none."""
        spectrum = self.method.spectrum()
        return None if spectrum is None else Spectrum(*(part.detach().cpu() for part in spectrum))

    def encode(self, x: Array) -> Any:
        """Coefficients (n, k, d) of observations (n, …) in the learned eigenbasis.

        Raises:
            ValueError: observations of another shape than those that were fitted.
        """
        return self._like(x, self._encoded(x))

    def decode(self, a: Array) -> Any:
        """Observations (n, …) of coefficients (n, k, d), in the units of those that were fitted."""
        parts = (self.method.decode(part) for part in self._tensor(a).float().split(BATCH))
        return self._like(a, self._observed(torch.cat([part.detach() for part in parts])))

    def map(self, x: Array, tx: Array) -> Any:
        """Maps τ (n, k, k) from observations to transformed ones: τ a ≈ b.

        Raises:
            TypeError: the method has no maps.
            ValueError: observations of another shape, or another number of the one than of the other.
        """
        if len(x) != len(tx):
            raise ValueError(f"give as many transformed observations as observations, not {len(tx)} and {len(x)}")
        with torch.no_grad():
            a, b = self._encoded(x), self._encoded(tx)
            taus = [self.method.solve(*both) for both in zip(a.split(BATCH), b.split(BATCH), strict=True)]
        return self._like(x, torch.cat(taus))

    def transport(self, other: Array, tau: Array) -> Any:
        """Other observations (n, …) as they would look transformed: D(τ E(other)), in the shape given.

        Args:
            tau: (n, k, k) maps, a map for each, or (1, k, k), one for all.
        """
        with torch.no_grad():
            a = self._encoded(other)
            moved = self._tensor(tau).to(a.dtype) @ a
            parts = [self.method.decode(part) for part in moved.split(BATCH)]
        observed = self._observed(torch.cat(parts))
        if other.ndim < observed.ndim:  # as given, without the axis of a single channel
            observed = observed.squeeze(1 if len(self._shape) == 3 else -1)
        return self._like(other, observed)

    def invariants(self, x: Array) -> Any:
        """Features (n, d(d + 1)/2) that isometries do not change: the inner products aᵀa of the latent channels."""
        return self._like(x, inner_products(self._encoded(x)))

    def __repr__(self) -> str:
        headline = ", ".join(f"{key} {value:.3g}" for key, value in list(self.metrics.items())[:3])
        wrong = sum(finding.bad is True for finding in self.diagnosis)
        return f"Fitted({type(self.method).__name__}, {headline}, {wrong} findings)"

    @torch.no_grad()
    def _encoded(self, x: Array) -> Tensor:
        observed = self._tensor(x)
        if observed.ndim == len(self._shape):  # without the axis of a single channel
            observed = observed[:, None] if len(self._shape) == 3 else observed[..., None]
        if tuple(observed.shape[1:]) != self._shape:
            expected = ", ".join(map(str, self._shape))
            raise ValueError(f"observations must be (n, {expected}), as those that were fitted, not {tuple(x.shape)}")
        parts = [self.method.encode(scaled(part, self._scaling)) for part in observed.split(BATCH)]
        return torch.cat(parts)

    def _observed(self, x: Tensor) -> Tensor:
        channels_first = len(self._shape) == 3
        if channels_first and len(self._scaling.offset) > 1:
            return unscaled(x.movedim(1, -1), self._scaling).movedim(-1, 1)
        return unscaled(x, self._scaling)

    def _tensor(self, values: Array) -> Tensor:
        parameter = next(self.method.model.parameters())
        return torch.as_tensor(np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values).to(
            parameter.device
        )

    @staticmethod
    def _like(given: Array, values: Tensor) -> Any:
        values = values.detach()
        return values.to(given.device) if isinstance(given, Tensor) else values.cpu().numpy()


def fit(
    x: Any,
    tx: Array | None = None,
    *,
    ttx: Array | None = None,
    group: Array | None = None,
    label: Array | None = None,
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
        points: (N, 2 or 3) coordinates of the points of functions, for figures; `weights` (N,) their areas.
        transform: instead of `tx`: what niso applies to x: shift, rotation, affine, homography, colour or elastic.
        method: see `niso.methods.METHODS`; by default niso-group where transformations are shared, and niso.
        encoder, decoder: your own modules; latents (batch, points, channels) or (batch, channels, height, width).
        preset: quick, standard or large.
        steps: instead of the preset's.
        device: "cpu" or "cuda"; a GPU where there is one by default.
        progress: show a bar on stderr, and what was chosen.
        seed: of everything random. The state of torch's generators is left alone.
        out: run folder to keep, with report and figures; by default one that is removed.
        **settings: other settings of `niso run pairs`, e.g. rank=16.

    Raises:
        InputError: the data or a setting cannot be used; one line says why and what to do.
        TrainingError: the loss is not finite.
    """
    check_choice("preset", preset, PRESETS)
    config = _config(PRESETS[preset], transform, steps, settings)
    arrays = _arrays(x, tx)
    for name, values in {"ttx": ttx, "group": group, "label": label, "points": points, "weights": weights}.items():
        if values is not None:
            arrays[name] = _numpy(values)
    if (encoder is None) != (decoder is None):
        raise InputError("encoder and decoder go together: give both")
    own = None if encoder is None or decoder is None else Own(encoder, decoder)
    given = Given(make_table(NAME, arrays, config.reading), own)
    if method is None:
        method = "niso" if "tx" in arrays and "group" not in arrays else GROUPED
    check_choice("method", method, Pairs.methods())
    made = list[_Kept]()

    def make(*words: Any) -> Pairs:
        kind = partial(_Kept, given=given)
        made.append(kind(*words))
        return made[0]

    hardware = Hardware(accelerator=_accelerator(device))
    with _folder(out) as folder, _left_alone(hardware), nullcontext() if progress else quiet():
        all_settings = Settings("pairs", preset, config, method, seed, hardware=hardware)
        try:
            metrics = runner.run(all_settings, folder, make=make, tune=False, report=out is not None)
        except Interrupted as error:
            if out is None:
                raise KeyboardInterrupt from error
            raise
    experiment = made[0]
    assert experiment.result is not None
    return Fitted(
        experiment.method,
        experiment.data.scaling,
        experiment.data.table.shape,
        experiment.facts(),
        metrics,
        experiment.result.findings,
        None if out is None else Path(out),
    )


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

"""A trained model, to be used and kept: what `niso.fit` and `niso.load` return."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from PIL.Image import Image as Picture
from torch import Tensor

from niso.checks import check_count, check_flag
from niso.data.pairs.geometry import GEOMETRY
from niso.data.pairs.observations import Observed, read_observations
from niso.data.pairs.sampling.data import BATCH
from niso.data.pairs.table import as_array
from niso.data.pairs.tensors import as_tensor
from niso.data.pairs.units import Units
from niso.data.shapes.prepared import check_preparation
from niso.errors import InputError, counted, first_line, in_words_of_python, some_of
from niso.experiments.classifier import Classifier
from niso.experiments.diagnosis import Finding
from niso.experiments.head import check_scores
from niso.experiments.registered import FACT, registered
from niso.experiments.saved import REBUILT, Saved, plain_name, write_saved
from niso.experiments.settings import Settings
from niso.files.writing import write_atomically
from niso.hub import SCHEME, repository
from niso.hub.card import CARD, card
from niso.messages import say
from niso.methods.method import Method
from niso.methods.retrieval import CANDIDATES, scores, tells_apart
from niso.networks.invariants import inner_products
from niso.spectrum import Spectrum
from niso.training.mode import in_mode

Array = np.ndarray | Tensor
A = TypeVar("A", np.ndarray, Tensor)
"""What is given, and so what comes back."""
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that torch can store but not compute with; so are floats of 8 bits."""


class Beside(NamedTuple):
    """Weights that are kept beside those of a method's model and those of a classifier: of a predictor on top of it.

    Attributes:
        prefix: of the names of the model's own weights where these are held together.
        tensors: the others by name.
    """

    prefix: str
    tensors: Mapping[str, Tensor]


class Matches(NamedTuple):
    """What is nearest to each query, nearest first, see `Fitted.find`.

    Attributes:
        rows: (queries, count) of the gallery.
        similarity: (queries, count), at most 1: 2⟨τa, b⟩ / (‖τa‖² + ‖b‖²) of what the best map τ makes of the
            coefficients a of these rows, and those of the query, b.
    """

    rows: Array
    similarity: Array


class Fitted:
    """A trained model, to be used: what `niso.fit` and `niso.load` return.

    It takes observations as they were trained on, in the same units: those of the user's own pairs; digits of homNIST
    padded, frames of pose, both with values 0 … 255; maps of shapes as `niso data prepare shapes` writes them;
    functions (points, channels) on the grid of torus and sphere. Of NumPy arrays it makes NumPy arrays, of tensors
    tensors on the same device. Everything is computed in evaluation mode, without gradients.

    Args:
        beside: how the model's weights are named where it is saved, and others that are saved with it.
        classifier: where one was trained.

    Attributes:
        method: the trained method; `method.model` is the module, e.g. a `niso.NeuralIsometry`.
        settings: of the run that trained it.
        facts: what was read and chosen, see `Experiment.facts`; enough to build the same networks again.
        metrics: of held-out observations, by the keys of the experiment.
        diagnosis: what these say of the user's own pairs, what is wrong first; each has a text, `str(finding)`.
        run: the run folder with report, figures and weights; None where there is none.

    Raises:
        KeyError, TypeError, ValueError: the facts do not say what observations are.
    """

    def __init__(
        self,
        method: Method,
        settings: Settings,
        facts: Mapping[str, Any],
        metrics: Mapping[str, float],
        diagnosis: tuple[Finding, ...],
        run: Path | None,
        beside: Beside | None = None,
        classifier: Classifier | None = None,
    ) -> None:
        self.method, self.settings, self.metrics = method, settings, dict(metrics)
        self.diagnosis = tuple(finding._replace(remedy=in_words_of_python(finding.remedy)) for finding in diagnosis)
        self.run = run
        self._beside = Beside("", {}) if beside is None else beside
        self.classifier = classifier
        """Observations as networks take them, see `scaled`, to scores of `classes`; None where there is none."""
        self.facts = {key: facts[key] for key in REBUILT if key in facts}
        if added := registered(settings, facts):
            self.facts[FACT] = added
        data = facts["data"]
        self.shape = tuple(int(size) for size in data["shape"])
        """Of one observation."""
        self.any_channels = bool(data.get("any_channels"))
        """Whether observations may have any number of channels, not those of `shape` alone."""
        self.classes: tuple[str | int, ...] = () if classifier is None else tuple(data["classes"])
        """Labels that the classifier tells apart, as they were given, whole floats as integers; empty without one."""
        self._geometry = {key: tuple(map(float, data[key])) for key in GEOMETRY if key in data}
        self._preparation = data.get("preparation", {})
        hidden = getattr(settings.config, "confidence", "none") == "given"  # NaN are pixels that are not seen
        self.units = Units.of(data, hidden)
        """Of observations: how they become what networks take, and which are refused."""
        method.model.eval()

    def to(self, device: str | torch.device) -> Fitted:
        """Move the model, which computes there from now on; the model itself.

        Raises:
            InputError: this machine has no such device.
        """
        place = find_device(device)
        self.method.model.to(place)
        if self.classifier is not None:
            self.classifier.to(place)
        return self

    @property
    def spectrum(self) -> Spectrum | None:
        """Mass, eigenfunctions (points, k) and eigenvalues (k,), on the CPU; None where the method learns none."""
        spectrum = self.method.spectrum()
        return None if spectrum is None else Spectrum(*(part.detach().cpu() for part in spectrum))

    @property
    def dtype(self) -> torch.dtype:
        """What observations are computed in: float32, or float64 where the model is."""
        own = next((p.dtype.to_real() for p in self.method.model.parameters()), torch.float32)
        return torch.promote_types(own, torch.float32)

    def encode(self, x: A) -> A:
        """Coefficients (n, k, d) of observations (n, …) in the learned eigenbasis.

        Raises:
            TypeError: values that are no real numbers.
            ValueError: observations of another shape than those trained on, in other units, of a type that rounds away
                how they vary, or NaN or infinite.
            InputError: the encoder gives what is not finite.
        """
        return self._like(x, self._encoded(x))

    def decode(self, a: A) -> A:
        """Observations (n, …) of coefficients (n, k, d), in the units of those trained on, with an axis of channels:
        (n, 1, H, W) also where images were given as (n, H, W).

        They are single precision, or double where that would not hold how they vary: days, for example, that lie far
        from 0.

        Raises:
            TypeError: values that are no real numbers.
            ValueError: coefficients of another shape than `encode` gives, or NaN or infinite.
        """
        coefficients = self._tensor(a).to(self.dtype)
        rank, channels = self._latent_shape
        fits = coefficients.ndim == 3 and coefficients.shape[1] == rank
        if not (fits and (self.any_channels or coefficients.shape[2] == channels)):
            expected = f"(n, {rank}, {'any' if self.any_channels else channels})"
            raise ValueError(f"coefficients must be {expected}, as encode gives them, not {tuple(a.shape)}")
        _check_finite("coefficients", coefficients)
        return self._like(a, self._decoded(coefficients))

    def map(self, x: A, tx: Array, shared: bool = False) -> A:
        """Maps τ (n, k, k) from observations to transformed ones: τ a ≈ b.

        Args:
            shared: whether all pairs share one T: then it is one map (1, k, k), solved from all of them together.

        Raises:
            TypeError: the method has no maps, `shared` is neither True nor False, or as in `encode`.
            ValueError: as in `encode`, or another number of the one than of the other.
            InputError: as in `encode`, or maps that are not finite.
        """
        return self._like(x, self._solved(self._encoded(x), self._encoded(tx), shared))

    def solve(self, a: A, b: Array, shared: bool = False) -> A:
        """The same maps from the coefficients (n, k, d) of both, as `encode` gives them.

        Args:
            shared: as in `map`.

        Raises:
            TypeError: the method has no maps, or `shared` is neither True nor False.
            ValueError: coefficients of another rank, another number of the one than of the other, NaN or infinite
                values, or such as have infinite products.
            InputError: maps that are not finite.
        """
        both, (rank, _) = (self._tensor(a), self._tensor(b)), self._latent_shape
        for coefficients in both:
            if coefficients.ndim != 3 or coefficients.shape[1] != rank:
                raise ValueError(
                    f"coefficients must be (n, {rank}, d), as encode gives them, not {tuple(coefficients.shape)}"
                )
            _check_finite("coefficients", coefficients)
        return self._like(a, self._solved(*both, shared))

    def transport(self, other: A, tau: Array) -> A:
        """Other observations (n, …) as they would look transformed: D(τ E(other)), in the shape given.

        They are as precise as those of `decode`, and may leave the range of what was given: clip pictures to 0 … 255
        before these become bytes.

        Args:
            tau: (n, k, k) maps, a map for each, or (1, k, k), one for all.

        Raises:
            TypeError, ValueError: as in `encode`, or maps of another shape, or NaN or infinite.
        """
        a, maps = self._encoded(other), self._tensor(tau)
        if maps.ndim != 3 or len(maps) not in (1, len(a)) or maps.shape[1:] != (a.shape[1], a.shape[1]):
            expected = f"({len(a)} or 1, {a.shape[1]}, {a.shape[1]})"
            raise ValueError(f"maps must be {expected}, not {tuple(maps.shape)}")
        _check_finite("maps", maps)
        observed = self._decoded(maps.to(a.dtype) @ a)
        if other.ndim < observed.ndim:  # as given, without the axis of a single channel
            observed = observed.squeeze(1 if self.units.channels_first else -1)
        return self._like(other, observed)

    def invariants(self, x: A) -> A:
        """Features (n, d(d + 1)/2) that isometries do not change: the inner products aᵀa of the latent channels.

        Raises:
            TypeError: the method's maps are no isometries, as those of NFT, or it has none.
            ValueError: as in `encode`.
        """
        self._check_invariants()
        return self._like(x, inner_products(self._encoded(x)))

    def probabilities(self, x: A) -> A:
        """Probabilities (n, classes) of the labels `classes`, by the classifier that was trained.

        Raises:
            TypeError: there is no classifier, or as in `encode`.
            ValueError: as in `encode`.
            InputError: its scores are not finite.
        """
        if self.classifier is None:
            raise TypeError(
                "this model has no classifier: niso.fit(…, label=…), or a run on observations with labels, trains one"
            )
        scaled = self.scaled(x)
        classifier = self.classifier.to(scaled.device)
        with torch.no_grad(), in_mode(classifier, False):
            scores = torch.cat([classifier(part) for part in scaled.split(BATCH)])
        return self._like(x, check_scores(scores).softmax(-1))

    def predict(self, x: A) -> np.ndarray:
        """Labels (n,) of observations: the most probable of `classes`.

        Raises:
            TypeError, ValueError, InputError: as in `probabilities`.
        """
        most = self.probabilities(x).argmax(-1)
        return as_array(self.classes)[most.cpu().numpy() if isinstance(most, Tensor) else most]

    def find(self, queries: A, gallery: Array, count: int = 5, candidates: int = CANDIDATES) -> Matches:
        """The observations of a gallery (m, …) that transformations, whichever they are, take nearest to each query.

        Invariants say which come into question; these candidates are then compared by the best map from each to the
        query.

        Args:
            queries: (n, …) observations.
            count: how many to find for each, at most m.
            candidates: how many, nearest by invariants, are compared by maps; `count` at least. More take longer, and
                miss fewer where the gallery is large. Where invariants tell none apart, as of one-channel signals that
                were standardised one by one, all are compared.

        Raises:
            TypeError: as in `invariants`, or a count that is not a whole number.
            ValueError: as in `encode`, fewer than two observations in the gallery, or a count that is not one of
                1 … m.
        """
        self._check_invariants()
        count, candidates = check_count("count", count), check_count("candidates", candidates)
        b, a = self._encoded(queries), self._encoded(gallery)
        if len(a) < 2:
            raise ValueError("the gallery has one observation: give two or more, of which to find the nearest")
        if count > len(a):
            raise ValueError(f"count must be at most {len(a)}, the observations of the gallery, not {count}")
        if len(a) > max(candidates, count) and not tells_apart(inner_products(a)):
            say("invariants tell none of the gallery apart: maps from all of it are compared, which takes longer")
        with self._solving():
            best = [part.topk(count, dim=1) for part in scores(self.method, b, a, max(candidates, count))]
        rows, similarity = (torch.cat([part[place] for part in best]) for place in (1, 0))
        return Matches(self._like(queries, rows), self._like(queries, similarity))

    def read(self, path: str | Path, view: str = "x") -> Observed:
        """Observations for the model: of an array file, a picture, a video, or a folder of either.

        Args:
            view: which array of a file that holds several, or which pictures of a folder of pairs: x, or tx.

        Raises:
            InputError: they cannot be read, or are not what the model takes.
        """
        units = self.units
        read = read_observations(Path(path).expanduser(), self.shape, units.bytes, units.hidden, view, self._geometry)
        if not len(read.values):
            raise InputError(f"{path} holds no observations")
        check_preparation(str(path), read.preparation, self._preparation)
        try:
            units.check(self._shaped(read.values), read.values)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error
        return read

    def features(self, observed: Observed) -> dict[str, np.ndarray]:
        """Arrays by name: `coefficients`, `invariants` where the method's maps are isometries, `eigenvalues`, `names`,
        `label`, of what `read` gives, which has checked the range of the values.

        Raises:
            TypeError: something else is given.
            InputError: coefficients are not finite.
        """
        if not isinstance(observed, Observed):
            raise TypeError("give what Fitted.read gives; of arrays take encode and invariants")
        chunks = (observed.values[i : i + BATCH] for i in range(0, len(observed.values), BATCH))
        with self._evaluation():
            parts = [self.method.encode(self.units.scaled(self._shaped(self._tensor(chunk)))) for chunk in chunks]
        arrays = {"coefficients": _check_encoded(torch.cat([part.cpu() for part in parts])).numpy()}
        if self.method.has_invariants:
            arrays["invariants"] = torch.cat([inner_products(part).cpu() for part in parts]).numpy()
        if (spectrum := self.spectrum) is not None:
            arrays["eigenvalues"] = spectrum.eigenvalues.numpy()
        return arrays | observed.arrays()

    def save(self, path: str | Path, half: bool = False) -> Path:
        """Keep the model in a new or empty folder, for `niso.load`: config.json and model.safetensors, no pickle.

        The classifier goes with it where there is one, and of pose the head, for `niso pose`.

        Args:
            half: store networks in half precision; the spectrum stays as it is. What is loaded is single precision.

        Raises:
            TypeError: `half` is neither True nor False.
            InputError: the folder holds files, or cannot be written.
        """
        check_flag("half", half)
        folder, weights = Path(path).expanduser(), self.method.model.state_dict()
        model = {f"{self._beside.prefix}{plain_name(name)}": tensor for name, tensor in weights.items()}
        others = dict(self._beside.tensors)
        if self.classifier is not None:
            others |= self.classifier.weights(self.method)
        write_saved(folder, Saved(self.settings, self.facts, self.metrics, model | others), half)
        return folder

    def push_to_hub(self, name: str, about: str = "", private: bool = False) -> str:
        """Upload the model to the Hugging Face Hub, for `niso.load("hf://owner/name")`; the address of its page.

        The repository is made where it is not there. It holds config.json, model.safetensors and a card, README.md.

        Args:
            name: owner/name.
            about: a sentence for the card: what the model can do, and what to expect.
            private: whether a new repository is to be seen by its owner alone.

        Raises:
            InputError: huggingface_hub is not installed, or the upload failed; one line says why.
        """
        with tempfile.TemporaryDirectory(prefix="niso-") as place:
            folder = self.save(Path(place) / "model")
            write_atomically(
                folder / CARD,
                card(name, f"{SCHEME}{name}", about, self.settings, self.facts, self.metrics).encode(),
            )
            return repository.upload(folder, name, private)

    def __repr__(self) -> str:
        headline = [f"{key} {value:.3g}" for key, value in list(self.metrics.items())[:3]]
        wrong = counted(sum(finding.bad is True for finding in self.diagnosis), "finding")
        return f"Fitted({', '.join([self.settings.method, *headline, wrong])})"

    @cached_property
    def _latent_shape(self) -> tuple[int, int]:
        """Rank and channels of the coefficients of an observation."""
        device = next(self.method.model.parameters()).device
        with self._evaluation():
            _, rank, channels = self.method.encode(torch.zeros(1, *self.shape, device=device)).shape
        return rank, channels

    @contextmanager
    def _evaluation(self) -> Iterator[None]:
        """Without gradients and in evaluation mode, which whoever trains on networks of their own has left."""
        with torch.no_grad(), in_mode(self.method.model, False):
            yield

    @contextmanager
    def _solving(self) -> Iterator[None]:
        """The same where maps are solved."""
        try:
            with self._evaluation():
                yield
        except FloatingPointError as error:  # of coefficients that are finite
            raise ValueError("products of coefficients are too large to solve for a map: scale both down") from error

    def _check_invariants(self) -> None:
        if not self.method.has_invariants:
            raise TypeError(f"{self.settings.method} has no isometries, and so no invariants: take coefficients")

    def _encoded(self, x: Array) -> Tensor:
        with self._evaluation():
            return _check_encoded(torch.cat([self.method.encode(part) for part in self.scaled(x).split(BATCH)]))

    def _decoded(self, a: Tensor) -> Tensor:
        """Observations, in their units."""
        with self._evaluation():
            decoded = torch.cat([self.method.decode(part) for part in a.split(BATCH)])
            decoded = decoded.to(torch.promote_types(decoded.dtype, torch.float32))  # half precision rounds units
            return self.units.unscaled(decoded)

    def _solved(self, a: Tensor, b: Tensor, shared: bool) -> Tensor:
        check_flag("shared", shared)
        if not self.method.has_maps:
            raise TypeError(f"the method {self.settings.method} has no maps")
        if len(a) != len(b):
            raise ValueError(f"give as many transformed observations as observations, not {len(b)} and {len(a)}")
        if shared:  # channels of all observations, of one
            a, b = (coefficients.movedim(0, 1).flatten(1)[None] for coefficients in (a, b))
        pairs = zip(a.split(BATCH), b.split(BATCH), strict=True)
        with self._solving():
            maps = torch.cat([self.method.solve(*both) for both in pairs])
        if wrong := _not_finite(maps):
            raise InputError(f"{type(self.method).__name__}.solve gives maps that are not finite, of pairs {wrong}")
        return maps

    def scaled(self, x: Array) -> Tensor:
        """Observations as the networks take them: of order one, with an axis of channels, on the model's device.

        Raises:
            TypeError, ValueError: as in `encode`.
        """
        observed = self._shaped(self._tensor(x))
        self.units.check(observed, x)
        return self.units.scaled(observed)

    def _shaped(self, observed: A) -> A:
        """Observations with an axis of channels; ValueError where they have another shape."""
        given = tuple(observed.shape)
        if observed.ndim == len(self.shape):  # without the axis of a single channel
            observed = observed[:, None] if self.units.channels_first else observed[..., None]
        free: int = 1 if self.any_channels else 0
        shape: tuple[int, ...] = self.shape[: len(self.shape) - free]
        if observed.ndim != len(self.shape) + 1 or tuple(observed.shape[1:])[: len(shape)] != shape:
            expected = ", ".join([*map(str, shape), *["any"] * free])
            raise ValueError(f"observations must be (n, {expected}), as those trained on, not {given}")
        if not len(observed):
            raise ValueError("give at least one observation")
        return observed

    def _tensor(self, values: Array) -> Tensor:
        tensor = as_tensor(values) if isinstance(values, np.ndarray) else values
        if not isinstance(tensor, Tensor):
            raise TypeError(f"give a numpy array or a torch tensor, not {type(values).__name__}{_remedy(values)}")
        if tensor.is_complex():
            raise TypeError(f"values must be real numbers, not of type {tensor.dtype}")
        check_dense(tensor)
        if tensor.dtype in _UNSIGNED:
            tensor = as_tensor(tensor.cpu().numpy())
        if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
            tensor = tensor.float()
        return tensor.to(next(self.method.model.parameters()).device)

    @staticmethod
    def _like(given: A, values: Tensor) -> A:
        return values.to(given.device) if isinstance(given, Tensor) else values.cpu().numpy()


def find_device(name: str | torch.device) -> torch.device:
    """A device of this machine, for a model.

    Raises:
        InputError: it has no such device.
    """
    if not isinstance(name, str | torch.device):
        raise InputError(f"device must be a name, such as cpu or cuda, or a torch.device, not {type(name).__name__}")
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"this machine has no device {name} for torch ({first_line(error)}): choose cpu") from error
    if device.type == "meta":
        raise InputError("a model on the device meta has no weights: choose cpu or cuda")
    return device


def check_dense(values: Tensor) -> None:
    """ValueError for a tensor whose entries cannot be read one by one."""
    if values.is_meta:
        raise ValueError("a tensor on the device meta has no values: give one on the CPU or a GPU")
    if values.is_nested:
        raise ValueError("a nested tensor is not read: give observations of one shape")
    if values.layout != torch.strided:
        raise ValueError("a sparse tensor is not read: give its to_dense()")


def _remedy(values: Any) -> str:
    """How to make an array of what is none, where that is obvious."""
    several = isinstance(values, list | tuple) and len(values) > 0
    one = values[0] if several else values
    if isinstance(one, Picture):
        which = "x" if several else "[x]"
        array = f"numpy.stack([picture.convert('RGB') for picture in {which}]).transpose(0, 3, 1, 2)"
        return f": {array} makes one of pictures of the model's size, and Fitted.read reads and resizes files"
    if isinstance(values, list | tuple):
        return f": {'torch.stack' if isinstance(one, Tensor) else 'numpy.array'} makes one of it"
    if isinstance(values, str | PathLike):
        return ": Fitted.read reads files, and Fitted.features encodes what it gives"
    if isinstance(values, Observed):
        return ": give its values, or give it to Fitted.features"
    for name in ("to_numpy", "toarray"):  # of a table of pandas; of a sparse array of SciPy
        if hasattr(values, name):
            return f": give its {name}()"
    return ": numpy.asarray makes one of it" if hasattr(values, "__array__") else ""


def _check_encoded(a: Tensor) -> Tensor:
    """Coefficients of observations, as they are; InputError where some are not finite, as by a network's logarithm."""
    if wrong := _not_finite(a):
        raise InputError(f"the encoder gives what is not finite, of observations {wrong}: look at them, and at it")
    return a


def _not_finite(values: Tensor) -> str:
    """Numbers of the rows that hold NaN or infinite values, in words; empty where none does."""
    return some_of([str(row) for row in (~values.isfinite()).flatten(1).any(1).nonzero()[:, 0].tolist()])


def _check_finite(what: str, values: Tensor) -> None:
    if not values.isfinite().all():
        raise ValueError(f"{what} hold NaN or infinite values: repair or remove them")

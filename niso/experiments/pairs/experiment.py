"""The user's own pairs: an encoder whose latents transform by isometries, what it found, and whether to trust it.

DATA gives pairs (ψ, Tψ), see `niso.data.pairs`. A part of the observations is held out; whatever is measured, figures
included, is of that part. Where there are labels, simple classifiers say what the features are worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.config import parse
from niso.data.pairs.arrays import ArrayReader
from niso.data.pairs.find import find_reader
from niso.data.pairs.geometry import GEOMETRY, sketch
from niso.data.pairs.pictures import PictureReader, shipped_photographs
from niso.data.pairs.reader import Reader
from niso.data.pairs.sampling.choose import pair_data
from niso.data.pairs.sampling.data import BATCH, PairData
from niso.data.pairs.scaling import means_of
from niso.data.pairs.split import Part, content
from niso.data.pairs.table import Kind, Table
from niso.data.pairs.variation import Variation
from niso.data.shapes.prepared import preparation_of, shapes_within
from niso.errors import InputError
from niso.experiments.diagnosis import Finding
from niso.experiments.experiment import Experiment, Phase, check_batch
from niso.experiments.head import ACCURACY_CHANCE, accuracy_chance, classes_of, frozen_phase, make_head, try_head
from niso.experiments.own import Own
from niso.experiments.pairs.choice import choose, keep, lacking, observed, said, with_rank
from niso.experiments.pairs.discrimination import MOST, discrimination
from niso.experiments.pairs.metrics import METRICS, VALIDATED
from niso.experiments.pairs.networks import check_independence, import_module_class, make_networks
from niso.experiments.pairs.presets import OF_PARTS, PRESETS, PairsConfig
from niso.experiments.pairs.probes import features_of, probes
from niso.experiments.pairs.recipes import LATENT, Chosen, recipe
from niso.experiments.pairs.retrieval import retrieval
from niso.geometry import ACTIONS
from niso.geometry.action import composes
from niso.methods import METHODS, methods_of
from niso.methods.evaluation.operator import Operator, learned_operator
from niso.methods.evaluation.pairs import PairEvaluation, evaluate_pairs
from niso.methods.method import Method, Networks
from niso.methods.spectra import SPECTRA
from niso.random import EVALUATION_SEED, step_generator
from niso.results import Result
from niso.training.optimizer import spectra

PROBED = 2_000
"""Labelled observations that probes are fitted to, and that they are tested on, at most."""
DEFAULT_TRANSFORM = "homography"
"""Of the photographs that are used where there is no DATA."""
GROUPED = "niso-group"
OF_READERS = frozenset({"kind", "size", "skip", "crops"})
"""Settings that only some readers heed."""
OF_OWN = dict.fromkeys(("architecture", "latent_channels", "padding"), "the networks are your own")
"""Settings that are not read where encoder and decoder are the user's own, and why."""


class Given(NamedTuple):
    """What a program gives instead of a path and of names: see `niso.fit`.

    Attributes:
        table: the observations.
        own: encoder and decoder; None for those that are chosen.
    """

    table: Table
    own: Own | None


class Shown(NamedTuple):
    """What figures need to know of observations.

    Attributes:
        kind: of the observations.
        alike: whether all channels of images have one scale, as colours have.
        points: coordinates of the points of functions; None where there are none.
        latent_grid: height and width of the latent domain, or the three sides of volumes'.
        on_domain: whether latent points are the points of the observations.
    """

    kind: Kind
    alike: bool
    points: Float[Tensor, "points dimensions"] | None
    latent_grid: tuple[int, ...]
    on_domain: bool


@dataclass
class PairsResult(Result):
    """What figures of a run on the user's pairs are drawn from.

    Attributes:
        pairs: what the method makes of held-out pairs.
        operator: what it learned; None where the method learns none.
    """

    pairs: PairEvaluation
    operator: Operator | None
    shown: Shown


class Pairs(Experiment):
    """The user's own pairs, see the module."""

    config: Chosen
    """Resolved, once it is built; before, a `PairsConfig`: what the user asks for."""
    method: Method
    given: ClassVar[Given | None] = None
    """What a program gives, see `niso.fit`; None where DATA is a path."""
    name = "pairs"
    summary = (
        "The model is trained on observations and their transformed views, and on nothing else. Its encoder's latents "
        "are related by isometries of a learned operator: small orthogonal matrices, solved for every pair. Metrics "
        "and figures are of observations that were held out; the diagnosis says by them what is wrong, and what to do."
    )
    config_class = PairsConfig
    presets = PRESETS
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "a first look: two minutes or so on two cores",
        "standard": "wider networks, larger groups and batches, more steps: for patience or a GPU",
        "large": "pictures of 64×64 pixels, 30,000 steps: for a GPU",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run pairs --data pictures --transform homography": "a folder of pictures",
        "niso run pairs --data pairs.npz": "arrays x and tx, or folders a/ and b/, or clips",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "or --data: arrays, pictures or clips",
        "transform": "what niso applies to single observations itself",
        "size": "pictures are shrunk to this side",
        "encoder": "module:Class of your own, with --decoder",
    }
    metrics = METRICS
    figures = "niso.experiments.pairs.figures"

    def build(self) -> None:
        wishes = cast(PairsConfig, self.config)
        before = parse(Chosen, self.chosen, Path("chosen")) if self.chosen else None
        self.data = self._paired(wishes, self._table(wishes, before or recipe(wishes.effort, "conv")))
        own = (self.given and self.given.own) or self._named(wishes)
        chosen = keep(before, wishes) if before else choose(wishes, self.data, self.method_name, own is not None)
        networks = self._networks(chosen, own)
        self.config = replace(with_rank(chosen, wishes.rank, networks.points), latent_channels=networks.channels)
        self.method = self.make_method(lambda: networks, observed=observed(self.data.table))
        if not any(parameter.requires_grad for parameter in self.method.model.parameters()):
            cause = "networks without weights that train leave" if own else "--architecture identity leaves"
            raise InputError(f"{cause} {self.method_name} nothing to train: choose another method")
        if self.config.variation:
            self.data.vary(Variation(self.config.variation))
        self._start_mass()
        self._check_batches()
        if not self.data.classes and wishes.classifier != PairsConfig.classifier:
            raise InputError("--classifier has no effect, leave it out: DATA has no labels")
        self.head: nn.Module | None = None
        self.announcement = said(self.config, self.data, networks.points, self.method_name)

    def _paired(self, wishes: PairsConfig, table: Table) -> PairData:
        """Observations in pairs, which must have what the method needs."""
        reading = wishes.reading
        if reading.transform is None and self.given is None and self.data_dir is None:
            reading = replace(reading, transform=DEFAULT_TRANSFORM)
        data = pair_data(table, reading, wishes.validation, wishes.test, self.device)
        self._check_method(data, reading.transform)
        return data

    def _networks(self, chosen: Chosen, own: Own | None) -> Networks:
        """Untrained networks; InputError where they or an operator do not fit the observations."""
        table = self.data.table
        try:
            networks = make_networks(chosen, table.kind, table.shape, own)
        except ValueError as error:
            raise InputError(str(error)) from error
        if own is not None:
            check_independence(own, table.shape)
        spectrum = self.config.spectrum
        if SPECTRA.find(spectrum).needs_places and table.kind == "points" and networks.grid[0] == 1:
            raise InputError(
                f"--spectrum {spectrum} needs places on a latent grid, and points of functions are in no order: leave "
                "--spectrum out"
            )
        return networks

    def _start_mass(self) -> None:
        """Start the mass of an operator on the points of the data at the weights that these have, if any."""
        weights = self.data.table.weights
        if weights is None:
            return
        on_data = [spectrum for spectrum in spectra(self.method.model) if spectrum.points == len(weights)]
        started = [spectrum.start_mass_at_(torch.from_numpy(weights)) for spectrum in on_data]
        if not any(started):
            why = "the mass of the spectrum does not start at them"
            unread = f"weights are not read: {why if on_data else 'no operator is learned on the points of the data'}"
            self.data.note = "; ".join(filter(None, [self.data.note, unread]))

    def _check_batches(self) -> None:
        """InputError where groups or batches, of pre-training or of a head, cannot be had, or the head not be made."""
        config = self.config
        if self.method.group > (most := self.data.largest_group):
            raise InputError(
                f"no T is shared by {self.method.group} pairs to train on, at most by {most}: lower --group-size"
            )
        check_batch(self.method, config.training)
        if self.data.classes:
            try_head(self.method, config, next(self.data.examples("train", BATCH))[0], self.data.classes)

    def _table(self, wishes: PairsConfig, usual: Chosen) -> Table:
        if self.given is not None:
            return self.given.table
        if wishes.reading.in_memory:
            raise InputError(
                "this run is of niso.fit on arrays in memory, which are not here: the same call of niso.fit goes on "
                "with it where it is not finished, and --data ARRAYS.npz makes another"
            )
        size = wishes.reading.size or usual.size
        if self.data_dir is None:
            return shipped_photographs(wishes.reading, size)
        return _reader(wishes, self.data_dir).read(self.data_dir, wishes.reading, size)

    @staticmethod
    def _named(wishes: PairsConfig) -> Own | None:
        if wishes.encoder is None or wishes.decoder is None:
            return None
        return Own(import_module_class(wishes.encoder), import_module_class(wishes.decoder))

    def _check_method(self, data: PairData, transform: str | None) -> None:
        name, available = data.table.name, methods_of(data.views, data.grouped)
        if self.method_name not in available:
            if METHODS.find(self.method_name).views > data.views:
                if transform is not None:
                    raise InputError(
                        f"--method {self.method_name} needs T², and --transform {transform} does not compose: choose "
                        "another one (of your own: define `compose`), or one of the methods " + ", ".join(available)
                    )
                lacks = f"triplets (ttx), which {name} does not give;"
            elif data.table.group is None:
                lacks = f"groups that share one T, which {name} does not give;"
            else:
                lacks = f"groups that share one T, and no number in {name}'s group occurs twice: leave group out, or"
            raise InputError(f"--method {self.method_name} needs {lacks} choose from {', '.join(available)}")

    @classmethod
    def unread(cls, config: PairsConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        # the recipe has the settings that methods ask for
        parts = replace(LATENT, **{name: getattr(config, name) for name in OF_PARTS})
        unread = METHODS.find(method).heads_unread(parts) | super().unread(parts, method, data_dir)
        renamed = {"group_size" if name == "group" else name: reason for name, reason in unread.items()}
        unread = {field.name: renamed[field.name] for field in fields(config) if field.name in renamed}
        reader = _reader(config, data_dir)
        for name in OF_READERS - reader.reads:
            unread[f"reading.{name}"] = f"it is not for {reader.takes}"
        if config.architecture == "identity":
            unread["latent_channels"] = "--architecture identity has the channels of the observations"
        return unread | (OF_OWN if config.encoder else {})

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return methods_of(views=3, grouped=True)

    @classmethod
    def available(cls, config: PairsConfig, data_dir: Path | None = None) -> tuple[str, ...]:
        names = _names(config, data_dir)
        single = not names & {"tx", "clip"}
        transform = config.reading.transform or DEFAULT_TRANSFORM
        triplets = composes(ACTIONS.find(transform)) if single else "ttx" in names
        return methods_of(3 if triplets else 2, single or "group" in names)

    @classmethod
    def default_method(cls, config: PairsConfig, data_dir: Path | None) -> str:
        return default_for(_names(config, data_dir))

    def facts(self) -> dict[str, Any]:
        """What was read, and all that was chosen: enough to build the same networks again without the data."""
        table, data = self.data.table, self.data
        geometry = {key: values for key in GEOMETRY if (values := getattr(table, key)) is not None}
        shapes = None if self.data_dir is None else shapes_within(self.data_dir)
        return {
            "data": {
                "name": Path(table.name).name,
                "kind": table.kind,
                "shape": list(table.shape),
                "classes": list(table.classes),
                "scaling": {name: list(values) for name, values in data.scaling._asdict().items()},
                "range": [min(data.ranges[0]), max(data.ranges[1])],
                **({"ranges": list(data.ranges)} if len(data.ranges[0]) > 1 else {}),
                "mean": means_of(table, data.rows["train"].numpy()),
                **({"spread": [spread._asdict() for spread in data.spreads]} if data.spreads else {}),
                **{key: sketch(values) for key, values in geometry.items()},
                **({} if shapes is None else {"preparation": preparation_of(shapes[0])}),
                **({"own_networks": True} if self.config.architecture == "own" else {}),
                **{f"{part}_observations": data.count(part) for part in data.rows},
            },
            "chosen": asdict(self.config),
            "split": data.fingerprint,
            "content": content(table),
        }

    @classmethod
    def rebuild(cls, config: PairsConfig, facts: Mapping[str, Any], own: Own | None = None) -> tuple[Chosen, Networks]:
        chosen = parse(Chosen, facts["chosen"], Path("chosen"))
        if facts["data"].get("own_networks"):  # else nothing that a saved model names is imported
            own = own or cls._named(config)
        if chosen.architecture == "own" and own is None:
            raise InputError("it was trained with networks of your own: give them, niso.load(…, encoder=…, decoder=…)")
        return chosen, make_networks(chosen, facts["data"]["kind"], tuple(facts["data"]["shape"]), own)

    # Training

    def phases(self) -> Iterator[Phase]:
        config, method = self.config, self.method
        yield Phase("pretrain", method.objective(), self.sample, config.training)
        method.after_pretraining(self.train_pairs, self.seed)
        if self.data.classes:
            data, size = self.data, config.head.batch_size
            examples = partial(data.examples, "train", data.count("train"))
            first = next(data.examples("train", BATCH))[0]
            self.head = make_head(method, config, first, data.classes)
            yield frozen_phase(method, self.head, config, first, lambda step: data.sample_labelled(size), examples)
        else:  # invariants find the views of an observation without a head, too
            method.read_finely(next(self.held_out("train"))[0])

    def sample(self, step: int) -> tuple[Tensor, ...]:
        """Pairs, triplets or groups to train on: this process's part."""
        return self.data.sample(self.config.training.batch_size, self.method.views, self.method.group)

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Random pairs to train on, the same in all processes."""
        generator = step_generator(self.seed, 0, "maps")
        yield from ((x, tx) for x, tx, *_ in self.data.pairs("train", count, generator))

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> PairsResult:
        method, data = self.method, self.data
        method.model.eval()
        pairs = self._evaluated("test")
        validation, trained = (self._evaluated(part).metrics for part in ("validation", "train"))
        operator = learned_operator(method)
        values: dict[str, float] = {
            **pairs.metrics,
            **{f"{key}_val": value for key, value in validation.items()},
            "reconstruction_error_train": trained["reconstruction_error"],
            "training_observations": data.count("train"),
            "held_out_observations": data.count("test"),
            **self._trivial_errors(),
            **pairs.latents,
            **self._retrieved("test"),
            **self._discriminated(),
            **{f"{key}_val": value for key, value in self._retrieved("validation").items() if key in VALIDATED},
            **(self._probed() if data.classes else {}),
        }
        points = data.table.points
        shown = Shown(
            data.table.kind,
            len(data.scaling.offset) == 1,
            None if points is None else torch.from_numpy(points),
            method.grid,
            self.config.architecture in ("identity", "pointwise"),
        )
        notes = tuple(map(str, self.doubts))
        return PairsResult(values, pairs, operator, shown, curves=pairs.curves, notes=notes)

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """What makes metrics doubtful, as the data says."""
        found = [Finding(subject, True, text, "") for subject, text in self.data.doubts.items()]
        if lacked := lacking(self.data):
            remedy = "give more of them, or other shares by --validation and --test"
            found.append(Finding("classes", True, lacked, remedy))
        return tuple(found)

    def held_out(self, part: Part) -> Iterator[tuple[Tensor, ...]]:
        """The pairs of a part that metrics are means over, the same for every run; see `PairData.pairs`."""
        return self.data.pairs(part, self.config.evaluation_pairs, step_generator(EVALUATION_SEED, 0, part))

    def _evaluated(self, part: Part) -> PairEvaluation:
        return evaluate_pairs(self.method, self.held_out(part))

    def _trivial_errors(self) -> dict[str, float]:
        """The errors of doing nothing, and of one prediction for all: the median at each place, the best for this."""
        median = torch.cat([tx for _, tx, *_ in self.held_out("train")]).median(0).values
        errors = [[(tx - of).abs().flatten(1).mean(1) for of in (x, median)] for x, tx, *_ in self.held_out("test")]
        names = ("identity_error", "constant_error")
        return {
            name: torch.cat(parts).mean().item() for name, parts in zip(names, zip(*errors, strict=True), strict=True)
        }

    def _retrieved(self, part: Part) -> dict[str, float]:
        """How well observations of a part are found by their transformed views; nothing where frames are alike."""
        return {} if self.data.table.clip is not None else retrieval(self.method, self.held_out(part))

    def _discriminated(self) -> dict[str, float]:
        """Whether maps tell true pairs from mismatched ones, of triplets their second pairs, too. Nothing where frames
        are alike, or where maps are no isometries and fit any pair."""
        if self.data.table.clip is not None or not self.method.has_invariants:
            return {}
        found = {"": discrimination(self.method, self.held_out("test"))}
        if "ttx" in self.data.table.views:
            rows = self.data.chosen_evenly("test", MOST)
            views = ((self.data.view("tx", some), self.data.view("ttx", some)) for some in rows.split(BATCH))
            found["_second"] = discrimination(self.method, views)
        return {f"pair_discrimination{pair}": share for pair, share in found.items() if share is not None}

    def _probed(self) -> dict[str, float]:
        """Accuracies of probes and of the head, on observations as they are and transformed."""
        data, method = self.data, self.method
        sources = {
            "train": data.examples("train", PROBED),
            "": data.examples("test", PROBED),
            "_transformed": data.transformed("test", PROBED, step_generator(EVALUATION_SEED, 0, "test")),
        }
        found = {name: features for name, batches in sources.items() if (features := features_of(method, batches))}
        labels = found[""].labels
        values: dict[str, float] = {ACCURACY_CHANCE.key: accuracy_chance(labels)}
        if self.head is not None:
            for name in [name for name in found if name != "train"]:
                parts = found[name].head.split(BATCH)
                predicted = torch.cat([classes_of(self.head, part, self.precision) for part in parts])
                values[f"head{name}"] = (predicted == found[name].labels).double().mean().item()
        return values | probes(found, method.has_invariants)


def default_for(names: Set[str]) -> str:
    """The method for data with these parts, see `Reader.names`: groups, where T can be shared, are by far the best, and
    triplets are better than pairs."""
    if "group" in names or not names & {"tx", "clip"}:
        return GROUPED
    return "niso-triplet" if "ttx" in names else "niso"


def _reader(config: PairsConfig, data_dir: Path | None) -> type[Reader]:
    """What reads DATA: arrays that a program gives, niso's own photographs, or a path."""
    if config.reading.in_memory:
        return ArrayReader
    return PictureReader if data_dir is None else find_reader(data_dir, config.reading)


def _names(config: PairsConfig, data_dir: Path | None) -> set[str]:
    """Which parts DATA has; niso's own photographs are single observations."""
    if data_dir is None:
        return {"x"}
    return find_reader(data_dir, config.reading).names(data_dir, config.reading)

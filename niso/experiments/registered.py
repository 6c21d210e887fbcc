"""Which parts of a run a program registered itself: recorded with the run, and compared when it is opened again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from niso.config import flat
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.settings import Settings
from niso.methods.config import ClassifierConfig
from niso.methods.part import Part
from niso.registry import Registry

FACT = "registered"
"""Fact of a run or a saved model, where there are such parts, e.g. {"method": {"niso": "package.Mine"}}."""
OF_MODEL = ("experiment", "method", "spectrum", "classifier")
"""Kinds of parts that a trained model is made of; others say what it was trained on."""
CHOOSE = {"action": ("action", "transform")}
"""Settings that choose from a registry, where their name is not the kind of what it holds."""


def registered(settings: Settings, facts: Mapping[str, Any], installed: bool = True) -> dict[str, dict[str, str]]:
    """Parts of a run that are not niso's own, or have another meaning: kind → name → full name.

    Args:
        facts: of the run: what it "chose" counts as its settings do.
        installed: whether those of installed packages count, which other processes know, too.
    """
    found, words = defaultdict[str, dict[str, str]](dict), _words(settings, facts)
    for registry in Registry.all:
        elsewhere = {name for other in Registry.of_kind(registry.kind) if other is not registry for name in other.own}
        for name in _chosen(registry.kind, words):
            if name in (registry.foreign if installed else registry.added) - elsewhere:
                found[registry.kind][name] = registry[name]
    return dict(found)


def check_registered(
    source: Path, settings: Settings, facts: Mapping[str, Any], kinds: Collection[str] | None = None
) -> None:
    """Check that the parts of a run are those that it was trained with, wherever a program registers them from.

    A part has moved where its class has the same name in another module of the same package. Of one that is not niso's,
    and of which the facts say nothing, nothing is known.

    Args:
        kinds: of the parts that count; all by default.

    Raises:
        InputError: a name means another part here; or the facts are damaged.
    """
    recorded = facts.get(FACT) or {}
    if not isinstance(recorded, Mapping) or not all(isinstance(names, Mapping) for names in recorded.values()):
        raise InputError(f"{source}: {FACT} must be an object of objects: restore it from a copy")
    words = _words(settings, facts)
    for kind in sorted({registry.kind for registry in Registry.all if kinds is None or registry.kind in kinds}):
        for name in _chosen(kind, words):
            own, here = ([entries[name] for entries in several if name in entries] for several in _entries(kind))
            added = recorded.get(kind, {}).get(name)
            trained = [added] if added else own
            moved = added and any(now not in own and _ends(added) == _ends(now) for now in here)
            if trained and not set(trained) & set(here) and not moved:
                raise InputError(_register(source, trained[0], kind, name, here[0] if here else "unknown"))


@contextmanager
def naming_unknown(source: Path, facts: object) -> Iterator[None]:
    """Errors of reading a run's settings say first which parts of it must be registered here.

    Args:
        facts: of the run, as far as they are there.
    """
    try:
        yield
    except InputError as error:
        recorded = facts.get(FACT) if isinstance(facts, Mapping) else None
        for kind, names in (recorded if isinstance(recorded, Mapping) else {}).items():
            known = {name for registry in Registry.of_kind(kind) for name in registry}
            if lacking := sorted(dict(names).keys() - known if isinstance(names, Mapping) else ()):
                raise InputError(_register(source, names[lacking[0]], kind, lacking[0], "unknown")) from error
        raise


def check_reads(settings: Settings) -> None:
    """Check that what a program has added reads settings that there are, in any experiment.

    Raises:
        InputError: it names another one.
    """
    added = registered(settings, {})
    for registry in Registry.all:
        for name in added.get(registry.kind, {}).keys() & registry.keys():
            part = registry.find(name)
            if isinstance(part, type) and issubclass(part, Part) and (unknown := part.reads - _known()):
                raise InputError(
                    f"{registry.kind} {name!r}: {registry[name]}.reads names {min(unknown)}, which is no setting"
                )


def _known() -> set[str]:
    """Settings of all experiments, and groups of them."""
    every = [config for kind in EXPERIMENTS.found().values() for config in kind.presets.values()]
    presets = [config for config in every if is_dataclass(config) and not isinstance(config, type)]
    names = [name.split(".") for config in (ClassifierConfig(), *presets) for name, _ in flat(asdict(config))]
    return {".".join(parts[:end]) for parts in names for end in range(1, len(parts) + 1)}


def _words(settings: Settings, facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Settings of a run that are words, each with its group and its name."""
    values = {**settings.dump(), "chosen": facts.get("chosen") or {}}
    places = ((setting.rpartition("."), value) for setting, value in flat(values))
    return [(group, name, value) for (group, _, name), value in places if isinstance(value, str)]


def _chosen(kind: str, words: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Names of parts of a kind that a run chose, from `_words`."""
    choosing = CHOOSE.get(kind, (kind,))
    asked = (word for group, name, word in words if name in choosing and not group.endswith("_settings"))
    yield from dict.fromkeys(asked)


def _register(source: Path, trained: str, kind: str, name: str, here: str) -> str:
    """What to do where a name means something else, or nothing."""
    means = f"which is {here} here: register {trained} under that name first"
    return f"{source} was trained with {trained} as the {kind} {name}, {means}"


def _entries(kind: str) -> tuple[list[Mapping[str, str]], list[Mapping[str, str]]]:
    """Niso's own entries of a kind, and those that there are now, of each registry."""
    registries = Registry.of_kind(kind)
    return [registry.own for registry in registries], [registry.data for registry in registries]


def _ends(where: str) -> tuple[str, str]:
    """The package and the class of a full name."""
    return where.partition(".")[0], where.rpartition(".")[2]

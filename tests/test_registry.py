"""Registries: names, and what happens where an entry is wrong."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from niso.errors import InputError
from niso.methods import METHODS
from niso.registry import Registry

THINGS: Registry[object] = Registry(
    "thing",
    {
        "dumps": "json.dumps",
        "typo": "json.dump5",
        "nowhere": "no_such_module.Thing",
        "below": "json.no_such_part.Thing",
    },
)


def test_what_is_named_is_found():
    import json

    assert THINGS.find("dumps") is json.dumps
    with pytest.raises(InputError, match="unknown thing 'dump'; did you mean dumps"):
        THINGS.find("dump")


@pytest.mark.parametrize("name", ["typo", "nowhere", "below"])
def test_entries_of_nothing_are_named(name):
    with pytest.raises(InputError, match=f"thing '{name}' is registered as {THINGS[name]}, which does not exist"):
        THINGS.find(name)


@pytest.mark.parametrize("where", [dict, "Name", "module.", "", None])
def test_entries_are_full_names(where):
    things = Registry("thing", {"own": "builtins.dict"})
    with pytest.raises(TypeError, match="thing 'other' needs a full name"):
        things["other"] = where
    with pytest.raises(TypeError, match="thing 'other' needs a full name"):
        things.update(other=where)
    things["more"] = "builtins.list"
    assert list(things) == ["own", "more"] and things.added == {"more"}


@pytest.mark.parametrize("name", [3, "", "has space", "--x", "a=b", "all"])
def test_names_are_those_that_commands_can_give(name):
    things = Registry("thing", {"own": "builtins.dict"})
    with pytest.raises(TypeError, match=f"commands cannot name a thing {name!r}: give letters|violates type hint"):
        things[name] = "builtins.list"
    assert list(things) == ["own"]


def test_a_module_that_is_imported_for_one_entry_may_add_others():
    things = Registry("thing", {"own": "builtins.dict"})
    for name in things:
        things[f"more-{name}"] = "builtins.list"
    assert list(things) == ["own", "more-own"]


def test_registries_are_joined_like_dictionaries():
    things = Registry("thing", {"own": "builtins.dict"})
    more = things | {"more": "builtins.list"}
    assert isinstance(more, Registry) and more.added == {"more"} and more.find("more") is list
    assert list(things) == ["own"]
    things |= more
    assert list(things) == ["own", "more"] and things.added == {"more"}
    for join in (lambda: things | {"other": "Name"}, lambda: things.__ior__({"other": "Name"})):
        with pytest.raises(TypeError, match="thing 'other' needs a full name"):
            join()


def test_registries_are_known_and_forget_what_was_added():
    things = Registry("thing", {"own": "builtins.dict"})
    things |= {"more": "builtins.list", "own": "builtins.set"}
    assert any(registry is things for registry in Registry.all)
    things.reset()
    assert dict(things) == {"own": "builtins.dict"} and not things.added


@pytest.mark.parametrize("where", ["json.dumps", "builtins.list"])
def test_what_is_of_another_kind_is_refused(where):
    things = Registry("thing", {"own": "collections.OrderedDict", "other": where}, base="builtins.dict")
    assert issubclass(things.find("own"), dict)
    with pytest.raises(InputError, match=f"thing 'other': {where} is no subclass of builtins.dict"):
        things.find("other")


def test_what_a_module_needs_is_its_own_matter(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        Registry("thing", {"needs": "needs_more.Thing"}).find("needs")


def test_what_a_module_needs_may_be_named_like_its_beginning(tmp_path, monkeypatch):
    (tmp_path / "missing_part.py").write_text("import missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="'missing'"):
        Registry("thing", {"needs": "missing_part.Thing"}).find("needs")


@pytest.mark.parametrize("content", ["import no_such_dependency", "1 / 0", "def", "import sys; sys.exit(3)", "[].x"])
def test_what_cannot_be_imported_harms_no_other_if_it_is_not_nisos_own(content, tmp_path, monkeypatch):
    (tmp_path / "broken_part.py").write_text(f"{content}\n")
    monkeypatch.syspath_prepend(tmp_path)
    things = Registry("thing", {"dumps": "json.dumps"})
    things["needs"] = "broken_part.Thing"
    with pytest.raises(InputError, match=r"thing 'needs': broken_part.Thing cannot be imported: \w+(Error|Exit): "):
        things.find("needs")
    assert list(things.found()) == ["dumps"] and things.foreign == {"needs"}


def test_what_is_added_is_told_from_what_was_there_whatever_happens_to_that():
    entries = {"own": "builtins.dict"}
    things = Registry("thing", entries)
    entries["later"] = "builtins.list"
    for _ in range(2):
        things["own"] = "builtins.set"
        things["more"] = "builtins.list"
        assert things.added == {"own", "more"}
        things.reset()
        assert dict(things) == {"own": "builtins.dict"}


def test_entries_of_nothing_harm_no_other():
    assert list(THINGS.found()) == ["dumps"]


def test_installed_packages_register_parts_and_replace_none(tmp_path):
    """Nothing of theirs is imported before it is asked for; niso's own processes know them, too."""
    points = {
        "parts": "mine = parts:Mine [extra]\nnft = parts:Other\nbare = parts\nall = parts:Mine\ntwice = parts:Mine",
        "others": "twice = others:Mine\nnested = others:Outer.Inner",
    }
    for package, lines in points.items():
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[niso.methods]\n{lines}\n")
    program = "from niso.methods import METHODS; print(sorted(METHODS.foreign), METHODS['mine'], sorted(METHODS.added))"
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places}
    )
    assert done.stdout == "['mine'] parts.Mine []\n", done.stderr
    assert sorted(done.stderr.splitlines()) == [
        f"! the method {name!r} of an installed package ({where}) is left out: {problem}"
        for name, where, problem in (
            ("all", "parts:Mine", "commands cannot name it"),
            ("bare", "parts", 'it must be "module:Name"'),
            ("nested", "others:Outer.Inner", 'it must be "module:Name"'),
            ("nft", "parts:Other", "niso has its own"),
            ("twice", "others:Mine and parts:Mine", "several packages have one of this name"),
        )
    ]


def test_the_group_of_entry_points_is_the_module_of_the_registry():
    grouped = [registry for registry in Registry.all if registry.group is not None]
    assert any(registry is METHODS for registry in grouped)
    for registry in grouped:
        assert any(value is registry for value in vars(import_module(registry.group)).values())

"""Whatever is public says what it takes, gives and refuses, in Google's form, which the API reference shows."""

import ast
import inspect
import itertools
import re

import griffe
import pytest

import niso
from niso.geometry.action import Action
from niso.methods.method import Method
from niso.results import Metric

PUBLIC = {f"niso.{name}": getattr(niso, name) for name in niso.__all__}
MODULES = {name: value for name, value in PUBLIC.items() if inspect.ismodule(value)}
FUNCTIONS = {
    f"{name}.{key}": value
    for name, module in MODULES.items()
    for key, value in vars(module).items()
    if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
CLASSES |= {kind.__name__: kind for kind in (Action, Method, Metric)}
FUNCTIONS |= {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
METHODS = {
    f"{name}.{key}": value
    for name, kind in CLASSES.items()
    for key, value in vars(kind).items()
    if inspect.isfunction(value) and not key.startswith("_") and key not in ("forward", "extra_repr")
}
RAISE = re.compile(r"^\s+raise (\w+(?:Error|Exception))\b", re.MULTILINE)


def sections(documented):
    """Sections of a docstring by their kind, and the names in those that have names."""
    docstring = griffe.Docstring(inspect.getdoc(documented) or "", lineno=1)
    found = {section.kind.value: section for section in griffe.parse_google(docstring, warnings=False)}
    named = {
        kind: {
            name.strip(" *")
            for entry in found[kind].value
            for name in str(getattr(entry, "name", None) or entry.annotation).split(",")
        }
        for kind in ("parameters", "raises", "attributes")
        if kind in found
    }
    return found, named


def below(kind):
    """Fields of a class with a docstring below each, as settings have them."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    return {
        field.target.id
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_what_it_takes_gives_and_raises(name):
    function = FUNCTIONS[name]
    found, named = sections(function)
    assert set(parameters(function)) <= named.get("parameters", set()), "Args"
    gives = inspect.signature(function).return_annotation
    assert "returns" in found or gives in (None, "None"), "Returns"
    assert set(RAISE.findall(inspect.getsource(function))) <= named.get("raises", set()), "Raises"
    assert "check_" not in inspect.getsource(function) or "raises" in found, "Raises, of what it checks"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_documents_what_it_raises_and_says_what_it_gives(name):
    _, named = sections(METHODS[name])
    assert inspect.getdoc(METHODS[name])
    assert set(RAISE.findall(inspect.getsource(METHODS[name]))) <= named.get("raises", set()), "Raises"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_documents_what_it_is_made_of(name):
    kind = CLASSES[name]
    _, named = sections(kind)
    given = set(parameters(kind.__init__)) - {"args", "kwargs"} if "__init__" in vars(kind) else set()
    given |= set(getattr(kind, "_fields", ()))
    documented = named.get("parameters", set()) | named.get("attributes", set()) | below(kind)
    assert inspect.getdoc(kind) and given <= documented

"""The check of types and shapes that the suite asks of every function of niso, from the import of this module on.

jaxtyping's own import hook checks arguments twice, once more with the result, and compiles anew every library that niso
imports: together a third of the suite's time.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import is_dataclass
from functools import partial, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from beartype import BeartypeConf, beartype
from jaxtyping import TypeCheckError, jaxtyped
from torch import Tensor
from torch._C import DisableTorchFunction

if "niso" in sys.modules:
    raise ImportError("import tests.checks before niso, whose functions are to be checked")

CHECK = beartype(conf=BeartypeConf(violation_type=TypeCheckError))


CALLS = 30
"""How many calls of a function are looked at in a test."""
MANY = 200
"""Checks of a function after which only its first call in a test is looked at."""


class Tests:
    """How many have begun: each has its calls checked anew."""

    begun = 0


tests = Tests()


def checked(thing: Any) -> Any:
    """A function that checks its arguments and its result, sizes of the same name among them, or such a dataclass.

    The check is written when the function is first called: for all of niso it takes seconds. A call like one that
    has passed is not checked again, nor is its result, and of those of a test none after its `CALLS`, or its first
    where there were `MANY` checks before: tests make thousands of like calls.
    """
    if isinstance(thing, type):
        if is_dataclass(thing) and "__init__" in vars(thing):
            thing.__init__ = checked(thing.__init__)
        return thing
    check: Callable[..., Any] | None = None
    passed = set[int]()  # hashes: tuples, a million of them, would slow down every search of the heap
    test, calls = 0, 0

    @wraps(thing)
    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal check, test, calls
        if test != tests.begun:
            test, calls = tests.begun, 0
        if calls >= (CALLS if len(passed) < MANY else 1):
            return thing(*arguments, **named)
        calls += 1
        with DisableTorchFunction():  # asking a tensor for its shape is no business of a mode's
            likeness = hash((*map(kind, arguments), kind(named) if named else None))
        if likeness in passed:
            return thing(*arguments, **named)
        if check is None:
            check = CHECK(annotated(thing))
        with jaxtyped("context"):  # sizes are those of this call
            result = check(*arguments, **named)
        passed.add(likeness)
        return result

    return call


def kind(value: Any) -> Hashable:
    """What a check may see of an argument: types and shapes, values of words and whole numbers, which object it is."""
    of = type(value)
    if of is Tensor:
        return of, value.shape, value.dtype
    way = WAYS.get(of)  # half of all values are of other types: objects whose methods are called
    if way is None:
        way = WAYS[of] = shaped if issubclass(of, (Tensor, np.ndarray)) else which
    return way(value)


def which(value: Any) -> Hashable:
    """Which object it is."""
    return id(value)


def shaped(value: Any) -> Hashable:
    return type(value), value.shape, value.dtype


WAYS: dict[type, Callable[[Any], Hashable]] = {
    **dict.fromkeys((str, int, bool), lambda value: (type(value), value)),
    float: lambda value: float,
    **dict.fromkeys((tuple, list), lambda value: (type(value), *map(kind, value))),
    dict: lambda value: tuple([(kind(key), kind(part)) for key, part in value.items()]),
}
"""What is asked of values of each type."""


def annotated(function: FunctionType) -> FunctionType:
    """The same with its annotations evaluated; Any where a name is known to type checkers alone."""
    names = function.__globals__
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = {name: evaluated(text, names) for name, text in function.__annotations__.items()}
    return copy


def evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation stands for."""
    try:
        return eval(annotation, names) if isinstance(annotation, str) else annotation
    except NameError:
        return Any


class Decorate(ast.NodeTransformer):
    """Adds `checked`, nearest to every function and furthest from every class.

    Functions within functions are left as they are: each call of the outer one would write their check anew.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list.append(ast.copy_location(ast.Name("checked by the suite", ast.Load()), node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list.insert(0, ast.copy_location(ast.Name("checked by the suite", ast.Load()), node))
        return self.generic_visit(node)


class Loader(SourceFileLoader):
    """Of modules whose functions are checked, with bytecode of their own."""

    TAG = "checks" + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]

    def source_to_code(  # type: ignore[override]  # typeshed's data and path may be what imports never give
        self, data: bytes, path: str, *, _optimize: int = -1
    ) -> CodeType:
        tree = ast.fix_missing_locations(Decorate().visit(ast.parse(data, path)))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    def get_code(self, fullname: str) -> CodeType | None:
        named = partial(cache_from_source, optimization=self.TAG)
        with patch("importlib._bootstrap_external.cache_from_source", named):
            return super().get_code(fullname)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, "checked by the suite", checked)
        super().exec_module(module)


class Finder(MetaPathFinder):
    """Finds the modules of niso."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.partition(".")[0] == "niso" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


sys.meta_path.insert(0, Finder())

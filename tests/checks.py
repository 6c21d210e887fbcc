"""The check of types and shapes that the suite asks of every function of niso (`--jaxtyping-packages`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from beartype import beartype


def at_first_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """`beartype`, which writes its check when the function is first called: for all of niso it takes seconds."""
    checked: Callable[..., Any] | None = None

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal checked
        if checked is None:
            checked = beartype(function)
        return checked(*arguments, **named)

    return call

"""JSON files, where null stands for a number that is not finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from niso.files.writing import write_atomically


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step; errors as in `write_atomically`. A number that is not finite, which JSON has no
    word for, becomes null."""
    content = json.dumps(_finite(values), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (content + "\n").encode())


def _finite(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _finite(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def nan_for_null(value: Any) -> Any:
    """What a JSON file has, with NaN for null, as which `write_json` writes numbers that are not finite."""
    return math.nan if value is None else value


def parse_json(content: str | bytes) -> Any:
    """The values of a JSON document.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error

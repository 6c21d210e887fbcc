"""What makes a configuration class refuse keys that it does not know, in one place and without an import."""

from __future__ import annotations

from typing import ClassVar


class Strict:
    """Base of configuration dataclasses: pydantic, which reads them from YAML, refuses unknown keys."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

"""Web pages from templates: one file each, which loads nothing; everything that a template is given is escaped."""

from __future__ import annotations

from typing import Any

import jinja2

from niso.report.numbers import MISSING, number, verdict

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("niso.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
ENVIRONMENT.globals["missing"] = MISSING
ENVIRONMENT.filters |= {"number": number, "verdict": verdict}


def render(template: str, **content: Any) -> bytes:
    """A page from a file of `templates/`; bytes of a folder's name that are no text are written as escapes."""
    return ENVIRONMENT.get_template(template).render(content).encode(errors="backslashreplace")

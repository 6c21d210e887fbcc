"""Web pages from templates: one file each, which loads nothing; everything that a template is given is escaped."""

from __future__ import annotations

import re
from typing import Any

import jinja2
from markupsafe import Markup, escape

from niso.report.numbers import MISSING, number, verdict

HYPHENATED = re.compile(
    r"(?<![\w/.-])(?=[\w.-]{1,32}(?![\w.-]))(?:--\w+(?:[.-]\w+)*|[^\W\d]\w*(?:[.-]\w+)*-\w+)(?![\w/-])"
)
"""Options and names such as niso-group in a text, but no parts of paths, and none that a narrow page could not hold."""


def whole(text: object) -> Markup:
    """A text whose options and names no line breaks: they are copied."""
    return Markup(HYPHENATED.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("niso.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
ENVIRONMENT.globals["missing"] = MISSING
ENVIRONMENT.filters |= {"number": number, "verdict": verdict, "whole": whole}


def render(template: str, **content: Any) -> bytes:
    """A page from a file of `templates/`; bytes of a folder's name that are no text are written as escapes."""
    return ENVIRONMENT.get_template(template).render(content).encode(errors="backslashreplace")

"""What mkdocs does not do by itself for the site of `make site`, as its hooks.

- Pages that are notebooks are run, and their pictures and what they print are shown (`tools.notebooks`), unless
  NISO_NOTEBOOKS=no. What came out is kept in .site-cache until the page or niso changes.
- Pages of all metrics and all settings are generated; CONTRIBUTING.md and CHANGELOG.md are pages, too.
- Links to files of the project that are no pages lead to its source.
- Equations become MathML, which browsers draw without any script.
- Numbers stay in one line with their errors and with the sign of percent.
"""

from __future__ import annotations

import ast
import hashlib
import html
import inspect
import logging
import os
import pickle
import posixpath
import re
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from functools import cache, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
from latex2mathml.converter import convert
from mkdocs.structure.files import File

from niso.cli.parsing import flags_of
from niso.experiments import EXPERIMENTS
from niso.results import RUN_METRICS
from tools.notebooks import Cell, run

ROOT = Path(__file__).parents[1]
SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
CACHE = ROOT / ".site-cache"
LOG = logging.getLogger("mkdocs.hooks")  # its warnings end a strict build
LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)\s#]+)((?:#[^)\s]*)?\))")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
PART_OF_NUMBER = re.compile(r"(<pre.*?</pre>)| ± |(?<=\d) %| (?=\(\d+\)</td>)", re.DOTALL)
NO_BREAK = "\N{NO-BREAK SPACE}"
PAGES = {"CONTRIBUTING.md": "design/contributing.md", "CHANGELOG.md": "design/changelog.md"}
"""Documents outside of docs/ that are pages of the site."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are generated."""
    made = {"reference/metrics.md": metrics_page(), "reference/settings.md": settings_page()}
    made |= {page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAGES.items()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Run a notebook, and turn links to files of the project."""
    names = {page_: name for name, page_ in PAGES.items()}
    home = posixpath.dirname(names.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    here = posixpath.dirname(page.file.src_uri)
    text = notebook(page, files, config) if "jupyter" in page.meta else markdown

    def turned(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(home, link[2]))
        if target in PAGES:
            return f"{link[1]}{posixpath.relpath(PAGES[target], here or '.')}{link[3]}"
        if target.startswith("docs/"):
            return f"{link[1]}{posixpath.relpath(target.removeprefix('docs/'), here or '.')}{link[3]}"
        if not (ROOT / target).exists():
            LOG.warning(f"{page.file.src_uri}: the link to {link[2]} leads nowhere")
        return f"{link[1]}{SOURCE}/blob/main/{target}{link[3]}"

    return LINK.sub(turned, text)


def on_page_content(content: str, **_: Any) -> str:
    """Equations as MathML, and numbers that no line ends in."""

    def drawn(equation: re.Match[str]) -> str:
        display = "block" if equation[1] == "div" else "inline"
        return str(convert(html.unescape(equation[2]).strip(), display=display))

    text = EQUATION.sub(drawn, content)
    return PART_OF_NUMBER.sub(lambda found: found[0] if found[1] else found[0].replace(" ", NO_BREAK), text)


def notebook(page: Any, files: Any, config: Any) -> str:
    """A notebook as a page: its cells with what they print and draw, which become files of the site."""
    path = ROOT / "docs" / page.file.src_uri
    text, parts = path.read_text(encoding="utf-8"), []
    for number, cell in enumerate(_cells(text)):
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if cell.printed:
            parts.append(f"```{{ .text .output .no-copy }}\n{cell.printed}\n```")
        for count, picture in enumerate(cell.pictures):
            name = f"{Path(page.file.src_uri).stem}-{number}-{count}.png"
            uri = posixpath.join(posixpath.dirname(page.file.src_uri), name)
            files.append(File.generated(config, uri, content=picture))
            parts.append(f"![{cell.alt or 'What the cell draws'}]({name})")
    return "\n\n".join(parts)


def _cells(text: str) -> list[Cell]:
    """The cells of a notebook after it ran, or as they ran before."""
    if os.environ.get("NISO_NOTEBOOKS") == "no":
        return list(run(text, execute=False))
    files = (path for path in sorted((ROOT / "niso").rglob("*")) if path.is_file() and path.suffix != ".pyc")
    code = b"".join(path.read_bytes() for path in files)  # and trained models
    kept = CACHE / hashlib.sha256(text.encode() + code).hexdigest()
    if not kept.exists():
        matplotlib.use("agg")
        with tempfile.TemporaryDirectory(prefix="niso-") as folder, chdir(folder):
            cells = list(run(text))
        CACHE.mkdir(exist_ok=True)
        kept.write_bytes(pickle.dumps(cells))
    return list(pickle.loads(kept.read_bytes()))


def metrics_page() -> str:
    """Every metric of every experiment, with its unit, which way is better, and what it is."""
    lines = [
        "# All metrics\n\nWhat an experiment says of each of its metrics, in the order of its reports. Tables mark "
        "by ↑ and ↓ which way is better."
    ]
    own = {name: EXPERIMENTS.find(name).metrics for name in EXPERIMENTS}
    for name, metrics in {**own, "every run": RUN_METRICS}.items():
        lines.append(f"\n## {name}\n\n| metric | better | unit | what it is |\n| --- | --- | --- | --- |")
        for metric in metrics:
            words = (f"`{metric.key}`", metric.better or "—", metric.unit or "—", metric.text.replace("|", "\\|"))
            lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting of every experiment, by its flag, with its value in the first preset."""
    lines = [
        "# All settings\n\n`niso run EXPERIMENT --help` shows those that are changed most, `--help-all` these. A value "
        "is that of the first preset; `config.yaml` of a run has them all."
    ]
    for name in EXPERIMENTS:
        kind = EXPERIMENTS.find(name)
        first, config = next(iter(kind.presets.items()))
        lines.append(f"\n## niso run {name}\n\n| setting | in `{first}` | what it is |\n| --- | --- | --- |")
        for flag, value, text in _settings(config):
            lines.append(f"| `{flag}` | `{value}` | {text} |")
    return "\n".join(lines) + "\n"


def _settings(config: Any) -> Iterator[tuple[str, Any, str]]:
    """Flag, value and docstring of each setting of a configuration, and of those inside it."""
    for path, flag in reversed(flags_of(type(config)).items()):
        *outer, name = path.split(".")
        owner = reduce(getattr, outer, config)
        yield flag, getattr(owner, name), _docstring(type(owner), name)


def _docstring(kind: type, name: str) -> str:
    """What stands below a field of a dataclass, in one line."""
    for owner in kind.__mro__:
        if name in inspect.get_annotations(owner):
            return " ".join(_docstrings(owner).get(name, "").split()).replace("|", "\\|")
    return ""


@cache
def _docstrings(kind: type) -> dict[str, str]:
    """What stands below each field of a dataclass that has such a text, by the field's name."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: text.value.value
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }

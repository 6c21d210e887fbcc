"""Project metadata that pyproject.toml cannot state: README.md as an index shows it, with absolute links.

Relative links work in a clone and on a forge; on the page of a package index the files are not beside it.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
SOURCE = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]


def absolute(link: re.Match[str]) -> str:
    """A picture's link to the file itself, another's to the page that shows it."""
    picture, text, target = link.groups()
    return f"{picture}[{text}]({SOURCE}/{'raw' if picture else 'blob'}/main/{target})"


README = re.sub(
    r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)", absolute, (HERE / "README.md").read_text(encoding="utf-8")
)

setup(long_description=README, long_description_content_type="text/markdown")

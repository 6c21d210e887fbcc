"""`niso models [NAME]`: the trained models that come with niso."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.options import Command

WIDTH = 100
"""Characters of a line of the list."""


@dataclass(frozen=True)
class Options(Command):
    """List the trained models that come with niso: what each can do, its main metric and its size. Or show a card.

    `niso.load("NAME")` loads one, and commands that use a trained model take its name in place of a run.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso models": "all of them, with what each can do",
        "niso models pose": "the card of one",
    }

    name: Annotated[str, Positional, arg(metavar="[NAME]")] = ""
    """The model whose card is shown; by default all are listed."""

    def __call__(self) -> None:
        from niso.hub import bundled

        if self.name:
            print(bundled.find(self.name).card, end="")
            return
        for name in bundled.names():
            model = bundled.find(name)
            print(f"{name} ({model.size / 1e3:,.0f} kB): {model.metric}")
            print(textwrap.indent(textwrap.fill(model.about, WIDTH), "    "))
        print('\n`niso models NAME` shows the card of one; in Python: niso.load("NAME")')

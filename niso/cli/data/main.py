"""`niso data …`: make shapes, and prepare shapes and video for experiments."""

from __future__ import annotations

import sys
from importlib import import_module

from niso.errors import InputError, nearest

HELP = """usage: niso data COMMAND …

commands:
  shapes OUT [options]               make classes of closed meshes, or deform given ones (--originals) into classes
  prepare shapes IN OUT [options]    map closed meshes and conformal variants to the sphere, for `niso run shapes`
  prepare co3d IN OUT [options]      crop and resize CO3Dv2, from its own layout, for `niso run pose`
  prepare video IN OUT [options]     the same for video files and folders of frames, with cameras or without

`niso data COMMAND --help` lists the options. Exit status: 0 all is done, 2 wrong call or bad input, 3 some shapes or
videos were refused (the others are prepared)."""

COMMANDS = {
    ("shapes",): ("shapes", "make"),
    ("prepare", "shapes"): ("shapes", "prepare"),
    ("prepare", "co3d"): ("frames", "co3d"),
    ("prepare", "video"): ("frames", "video"),
}
"""Words of a call: module of this package, imported when it is called, and function."""


def main(arguments: list[str]) -> int:
    """`niso data …`: the exit status.

    Raises:
        InputError: anything wrong with the call or the data, in one line.
        Interrupted: Ctrl-C.
    """
    words = tuple(word for word in arguments[:2] if not word.startswith("-"))
    for name, (module, function) in COMMANDS.items():
        if words[: len(name)] == name:
            command = getattr(import_module(f"niso.cli.data.{module}"), function)
            return int(command(arguments[len(name) :]))
    if not arguments or {"-h", "--help"} & set(arguments):
        print(HELP, file=None if arguments else sys.stderr)
        return 0 if arguments else 2
    known, said = [" ".join(name) for name in COMMANDS], " ".join(words)
    begun = [name for name in known if name.startswith(f"{said} ")]
    choices = f"; choose from {', '.join(begun)}" if begun else nearest(said, known)
    raise InputError(f"unknown command `niso data {said}`{choices}")

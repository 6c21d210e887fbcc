"""Damaged files for every reader of files that others wrote: each must give a result, or one clear line.

Anything else counts as a finding: another error, a warning, a crash, a hang, or memory beyond a limit. Readers work in
a process of their own, which is started again where it ends.

Run: python -m tools.fuzz --minutes 10
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from benchmarks.common import Named, table, write
from tools.corpus import TARGETS

WORKER = "from tools.fuzz import work; work()"
LIMIT = 30.0
"""Seconds that a reader may take for one of these small files."""
MEMORY = 768 << 20
"""Bytes that a reader may take beside what is loaded at its start."""
LONGEST = 1000
"""Characters of a clear line, without the name of the folder."""


@dataclass(frozen=True)
class Options(Named):
    """Options of the search for files that a reader does not withstand."""

    minutes: float = 10.0
    """Time to spend."""
    cases: int | None = None
    """Files for each reader, whatever time that takes."""
    seed: int = 0
    """Of the damage. Case n of a reader is the same for every time and machine."""
    first: int = 0
    """Number of the first case."""
    only: tuple[str, ...] = ()
    """Readers, by default all."""
    keep: str | None = None
    """Folder for the files of findings."""


class Reader:
    """A process that reads what it is told to."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def read(self, target: str, folder: Path) -> tuple[str, str]:
        """The outcome and what there is to say about it."""
        if self.process is None:
            command = [sys.executable, "-c", WORKER]
            root = Path(__file__).parents[1]
            self.process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._answer(None)
        process = self.process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([target, str(folder)]) + "\n")
            process.stdin.flush()
        answer = self._answer(LIMIT)
        if answer is not None:
            return answer
        hangs = process.poll() is None and not select.select([process.stdout], [], [], 0)[0]
        self.close()
        return ("hang", f"more than {LIMIT:g} s") if hangs else ("crash", f"exit status {process.returncode}")

    def _answer(self, limit: float | None) -> tuple[str, str] | None:
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            return None
        kind, detail = json.loads(line)
        return kind, detail

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def work() -> None:
    """Answer requests on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    with open(os.devnull, "w") as nowhere:  # decoders print what they think of a file
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)
    for target in TARGETS.values():  # what readers import counts for none of them
        with tempfile.TemporaryDirectory() as folder:
            target.write(Path(folder))
            list(target.read(Path(folder)))
    _limit_memory()
    print(json.dumps(("ready", "")), file=answers, flush=True)
    for line in sys.stdin:
        name, folder = json.loads(line)
        print(json.dumps(outcome(name, Path(folder))), file=answers, flush=True)


def outcome(name: str, folder: Path) -> tuple[str, str]:
    """What becomes of the files in a folder, in this process: "result", "refused", or what a finding is called."""
    from niso.errors import NisoError

    kind, lines = "result", list[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            lines = [str(line) for line in TARGETS[name].read(folder)]
        except NisoError as error:
            kind, lines = "refused", [str(error)]
        except MemoryError:
            return "memory", traceback.format_exc(limit=-3)
        except BaseException:
            return "error", traceback.format_exc(limit=-4)
    if caught:
        return "warning", f"{caught[0].filename}:{caught[0].lineno}: {caught[0].message}"
    for line in lines:
        if not line.isprintable() or not line or len(line.replace(str(folder), "")) > LONGEST:
            return "unclear line", line[: 2 * LONGEST]
    return kind, lines[0] if lines else ""


def _limit_memory() -> None:
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 1 << 20
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def damage(name: str, number: int, seed: int, sound: Path, folder: Path) -> None:
    """Make case `number` of a reader: sound files, one of them damaged."""
    chance = random.Random(f"{seed} {name} {number}")
    shutil.copytree(sound, folder)
    files = [folder / path for path in json.loads((sound / ".files").read_text())]
    (folder / ".files").unlink()
    path = chance.choice(files)
    path.write_bytes(TARGETS[name].mutate(path.read_bytes(), chance))


def search(options: Options, folder: Path) -> tuple[dict[str, Counter[str]], list[dict[str, Any]]]:
    """Outcomes of each reader, and the findings. Readers take turns."""
    names = options.only or tuple(TARGETS)
    counts, findings = {name: Counter[str]() for name in names}, list[dict[str, Any]]()
    for index, name in enumerate(names):
        sound = folder / f"sound{index}"
        sound.mkdir()
        files = [str(path.relative_to(sound)) for path in TARGETS[name].write(sound)]
        (sound / ".files").write_text(json.dumps(files))
    reader, number, begin = Reader(), options.first, time.monotonic()
    try:
        while (
            number - options.first < options.cases if options.cases else time.monotonic() - begin < 60 * options.minutes
        ):
            for index, name in enumerate(names):
                case = folder / "case"
                damage(name, number, options.seed, folder / f"sound{index}", case)
                kind, detail = reader.read(name, case)
                counts[name][kind] += 1
                if kind not in ("result", "refused"):
                    findings.append(
                        {"reader": name, "case": number, "kind": kind, "detail": detail.replace(str(case), "")}
                    )
                    if options.keep:
                        shutil.copytree(case, Path(options.keep) / f"{name} {number}", dirs_exist_ok=True)
                shutil.rmtree(case)
            number += 1
    finally:
        reader.close()
    return counts, findings


def main(options: Options) -> None:
    """Search, and write what was found."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts, findings = search(options, Path(folder))
    rows = [(name, sum(kinds.values()), kinds["result"], kinds["refused"]) for name, kinds in counts.items()]
    rows = [(*row, row[1] - row[2] - row[3]) for row in rows]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    table("Damaged files", ("reader", "files", "read", "refused in one line", "anything else"), rows)
    for finding in findings[:50]:
        print("\n{reader}, case {case}: {kind}\n{detail}".format(**finding))
    outcomes = {name: dict(kinds) for name, kinds in counts.items()}
    seconds = round(time.monotonic() - begin, 1)
    write("fuzz", replace(options, keep=None), {"seconds": seconds, "outcomes": outcomes, "findings": findings})
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))

"""Everything to be done in the first minutes on a machine with a GPU, in parts, each kept as a JSON file of its own.

Run: make gpu, or python -m benchmarks.on_gpu, from the source tree: niso need not be installed, and nothing is
downloaded. The same call again goes on where the last one ended. With --device cpu --rehearse all parts run on a CPU,
at tiny sizes and without CUDA graphs and compiled networks, in a folder of its own.

- tests: those marked cuda;
- polar: every backend of the polar factor, eager and as a CUDA graph, and the choice;
- steps: training steps of the four experiments at the paper's sizes, eager, compiled and as CUDA graphs, and what their
  convolutions and matrix products alone take;
- ddp: one process and two, where there are two devices;
- paper: homNIST's `paper` preset by the paper's method, pairs, with the time that is left; the next call resumes it.

Exit status: 0 all parts are done or cut by their time, 1 one went wrong, 3 one was left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = {
    "lightning-fabric": "lightning_fabric",
    "libigl": "igl",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
    "scikit-image": "skimage",
}
"""Modules whose names are not those of their packages."""
MEASURING = ("torch", "numpy", "jaxtyping", "rich", "yaml")
"""What the measurements need; tests and runs need all that niso needs."""
SHARES = {"tests": 180.0, "polar": 60.0, "steps": 260.0, "ddp": 60.0, "paper": 600.0}
"""Most seconds of each part."""
WORKERS = 8
"""Most processes that run tests side by side on a GPU, where pytest-xdist is there."""
GRACE = 15.0
"""Seconds that a part has to save and to end after its time."""
LOST = 4
"""Exit status of measurements whose process has lost its GPU: a new process goes on."""
PAPER = "--accelerator gpu --precision bf16-mixed --whole-step --checkpoint-seconds 10".split()
TINY = (
    "--accelerator cpu --conv.channels 4 --conv.stem-channels 4 --conv.blocks 1 --conv.patch 4 --rank 4"
    " --conv.latent-channels 4 --steps 2 --batch-size 4 --head.steps 2 --head.batch-size 4"
    " --evaluation-pairs 4 --test-digits 20 --test-copies 1 --digits embedded"
).split()


@dataclass(frozen=True)
class Call:
    """What is asked for, and until when."""

    device: str
    rehearse: bool
    parts: tuple[str, ...]
    out: Path
    run: Path
    data: Path | None
    end: float
    """By `time.time`."""

    def left(self, part: str) -> float:
        """Seconds that a part may take."""
        return min(SHARES[part], self.end - GRACE - time.time())


def missing(names: Sequence[str]) -> list[str]:
    """Those of some modules that this Python does not have."""

    def there(name: str) -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except ValueError:  # its place among the modules is taken
            return False

    return [name for name in names if not there(name)]


def dependencies() -> list[str]:
    """The modules of the packages that niso depends on, by pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[^\w-]", line)[0] for line in project["dependencies"]]
    return [MODULES.get(name, name) for name in names]


def unpack(wheels: Path, site: Path) -> None:
    """Install the wheels of a folder for this call alone: no index, no dependencies."""
    files = sorted(map(str, wheels.glob("*.whl")))
    if not files:
        sys.exit(f"on_gpu: {wheels} holds no wheels (*.whl)")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade"]
    if subprocess.run([*command, "--target", str(site), *files]).returncode:
        sys.exit(f"on_gpu: pip cannot install the wheels of {wheels}: are they for this Python?")
    sys.path.insert(0, str(site))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])


def child(words: Sequence[str], seconds: float, end: int = signal.SIGTERM) -> int | None:
    """Status of a program of its own, from the source tree: None where its time ended it.

    It first gets the signal `end`, by default SIGTERM, at which a run saves; `GRACE` seconds later it is killed, with
    all that it has started.
    """
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment |= {"PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:  # also where this program is interrupted
        process.send_signal(end)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write(path: Path, content: dict[str, object]) -> None:
    """Write JSON in one step."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(path)


def tests(call: Call, file: Path) -> tuple[bool, str]:
    """Run the tests marked cuda."""
    marked = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "pytest.mark.cuda" in path.read_text()]
    outcomes = file.with_suffix(".jsonl")
    outcomes.unlink(missing_ok=True)
    words = ["-m", "pytest", "-m", "cuda", "-q", "-x" if call.rehearse else "--continue-on-collection-errors"]
    words += ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "benchmarks.outcomes", f"--outcomes={outcomes}"]
    words += ["-o", "addopts=--import-mode=importlib", "-o", "filterwarnings=default"]  # without optional plugins
    if call.device == "cuda" and not missing(("xdist",)):
        words += ["-n", str(min(WORKERS, os.cpu_count() or 1)), "--dist", "loadgroup"]
    # killed, as a training would take SIGTERM to save, and its test would fail
    status = child([*words, *map(str, marked)], call.left("tests"), signal.SIGKILL)
    found = last_outcomes(outcomes) if outcomes.exists() else []
    outcomes.unlink(missing_ok=True)
    if not found:
        write(file, {"status": status, "failed": "pytest ran no test"})
        return False, "pytest ran no test: see above"
    wrong = {entry["test"]: entry["message"] for entry in found if entry["outcome"] == "failed"}
    skipped = sum(entry["outcome"] == "skipped" for entry in found)
    unfinished = [entry["test"] for entry in found if entry["outcome"] == "begun"]
    counts = {"tests": len(found), "skipped": skipped, "wrong": len(wrong), "unfinished": len(unfinished)}
    ended = sorted((entry for entry in found if "seconds" in entry), key=lambda entry: -entry["seconds"])
    longest = {entry["test"]: entry["seconds"] for entry in ended[:10]}
    write(file, {"status": status, **counts, "problems": wrong, "cut": unfinished, "longest": longest})
    said = ", ".join(f"{number} {name}" for name, number in counts.items())
    return not wrong and status in (0, None), said + (", cut by its time" if status is None else "")


def last_outcomes(file: Path) -> list[dict[str, Any]]:
    """What `benchmarks.outcomes` kept last of each test; what failed stays so, whatever follows it."""
    found = dict[str, dict[str, Any]]()
    for line in file.read_text().splitlines(keepends=True):
        if line.endswith("\n"):  # else its writer was killed
            entry = json.loads(line)
            if found.get(entry["test"], entry)["outcome"] != "failed":
                found[entry["test"]] = entry
    return list(found.values())


def measure(part: str, call: Call, file: Path) -> tuple[bool, str]:
    """Run a part of `benchmarks.gpu_parts`, in a new process wherever one has lost its GPU."""
    until = time.time() + call.left(part)
    words = ["-m", "benchmarks.gpu_parts", part, call.device, str(call.rehearse), str(file), str(until)]
    status: int | None = LOST
    while status == LOST and until - time.time() >= GRACE:
        status = child(words, until - time.time() + GRACE / 2)
    results = json.loads(file.read_text())["results"] if file.exists() else {}
    failed = [name for name, result in results.items() if isinstance(result, dict) and "failed" in result]
    ended = {0: "", None: ", cut by its time"}.get(status, f", ended with status {status}")
    return status in (0, None), f"{len(results) - len(failed)} results, {len(failed)} failed{ended}"


def paper(call: Call, file: Path) -> tuple[bool, str]:
    """Start homNIST's `paper` preset, or go on with it, and note where it stands."""
    given = TINY if call.rehearse else [*PAPER, "--data-dir", str(call.data)]
    words = ["run", "homnist", "--preset", "paper", "--method", "niso", *given, "--out", str(call.run)]
    if (call.run / "config.yaml").exists():
        words = ["resume", str(call.run)]
    began = time.time()
    status = child(["-m", "niso", *words], call.left("paper"))
    log = call.run / "log.csv"
    lines = [line.split(",") for line in log.read_text().splitlines()] if log.exists() else []
    last = dict(zip(lines[0], lines[-1], strict=False)) if len(lines) > 1 else {}
    metrics = call.run / "metrics.json"
    finished = json.loads(metrics.read_text()) if metrics.exists() else None
    content = {"status": status, "seconds": time.time() - began, "last": last, "metrics": finished}
    write(file, {**content, "command": " ".join(["niso", *words])})
    standing = f"{last['phase']} stands at step {last['step']}" if last else "nothing is trained yet"
    return status in (0, None), "finished" if finished else standing


def describe(call: Call) -> dict[str, object]:
    """The machine, and what niso needs and it does not have."""
    import torch

    about: dict[str, object] = {"python": sys.version.split()[0], "torch": torch.__version__, "cores": os.cpu_count()}
    if call.device == "cuda":
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        about |= {"gpus": names, "memory_gib": round(memory, 1), "cuda": torch.version.cuda}
        about["cudnn"] = torch.backends.cudnn.version()
    return {**about, "missing": missing(dependencies())}


def left_out(part: str, call: Call) -> str:
    """Why a part cannot be done, if it cannot."""
    needed = MEASURING if part in ("polar", "steps", "ddp") else (*MEASURING, *dependencies())
    absent = missing((*needed, "pytest", "hypothesis", "beartype") if part == "tests" else needed)
    if absent:
        return f"it needs {', '.join(dict.fromkeys(absent))}"
    if part == "paper" and call.data is None and not call.rehearse:
        return "name the folder of MNIST's files by --data-dir"
    return "no time is left, the next call goes on" if call.left(part) < 2 * GRACE else ""  # it has to start, too


def run(call: Call) -> int:
    """All parts in turn; the exit status."""
    about, wrong, undone = describe(call), 0, 0
    write(call.out / "machine.json", about)
    print(", ".join(f"{name} {value}" for name, value in about.items() if name != "missing"), flush=True)
    if about["missing"]:
        print(
            f"missing: {', '.join(map(str, about['missing']))} (docs/how-to/gpu.md says how to bring them)", flush=True
        )
    for part in call.parts:
        file, began = call.out / f"{part}.json", time.time()
        if reason := left_out(part, call):
            undone += 1
            print(f"== {part}: left out: {reason}", flush=True)
            continue
        done = {"tests": tests, "paper": paper}.get(part, partial(measure, part))
        fine, said = done(call, file)
        wrong += not fine
        print(f"== {part}: {said} ({time.time() - began:.0f} s)", flush=True)
    return 1 if wrong else 3 if undone else 0


def main(words: Sequence[str] | None = None) -> None:
    """`python -m benchmarks.on_gpu`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes")
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything (default: 9)")
    parser.add_argument("--parts", nargs="+", choices=SHARES, default=list(SHARES), metavar="PART")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the JSON files (default: runs/on-gpu, runs/on-gpu-rehearsal for a rehearsal)",
    )
    parser.add_argument(
        "--run", type=Path, help="folder of the paper run (default: OUT/paper, OUT/paper-rehearsal for a rehearsal)"
    )
    parser.add_argument("--data-dir", type=Path, help="folder of MNIST's files, for the paper run")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to be used for this call")
    options = parser.parse_args(words)
    end = time.time() + 60 * options.minutes
    suffix = "-rehearsal" if options.rehearse else ""  # its tiny run must not be taken for the paper's, and resumed
    out = (options.out or Path(f"runs/on-gpu{suffix}")).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if options.wheels:
        unpack(options.wheels, out / "site")
    if absent := missing(("torch",)):
        sys.exit(
            f"on_gpu: this Python ({sys.executable}) has no {absent[0]}: name one that has, by make gpu GPU_PYTHON=…"
        )
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    else:
        import torch

        if not torch.cuda.is_available():
            sys.exit("on_gpu: torch sees no CUDA device here: take --device cpu --rehearse to try everything out")
    folder, data = (options.run or out / f"paper{suffix}").resolve(), options.data_dir and options.data_dir.resolve()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # and so end what has been started
    sys.exit(run(Call(options.device, options.rehearse, tuple(options.parts), out, folder, data, end)))


if __name__ == "__main__":
    main()

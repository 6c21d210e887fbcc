"""Fixtures of the whole suite: one thread, seeded generators, both precisions."""

import errno
import importlib.metadata
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import pytest
import torch
import yaml
from hypothesis import HealthCheck, settings
from PIL import Image

import tests.checks  # from here on functions of niso check types and shapes
from niso.registry import Registry
from tests.forked import Popen

settings.register_profile(
    "niso",
    deadline=None,
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("niso")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Batched small SVDs collapse when cores are oversubscribed."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def no_power_cuts():
    """Files are not flushed to the disk one by one: no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    """What is rendered or measured once is kept for the session: no test reads or fills the user's cache.

    Matplotlib's list of fonts stays where it is: to make it takes seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def one_commit():
    """The commit is looked up once: hundreds of runs would start two processes of git each."""
    from niso.training import environment

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "commit", cache(environment.commit))
        yield


@pytest.fixture(autouse=True, scope="session")
def half_precision_is_no_loss():
    """No run warns of what bfloat16 costs on the CPU at hand: the suite says the same on all of them."""
    from niso.training import speed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "SLOWER", float("inf"))
        yield


@pytest.fixture(autouse=True, scope="session")
def packages_once():
    """Entry points of installed packages are read once for each search path: hundreds of runs would read them all."""
    search = importlib.metadata.entry_points

    @cache
    def once(_: tuple[str, ...], **named: str) -> Any:
        return search(**named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata, "entry_points", lambda **named: once(tuple(sys.path), **named))
        yield


@pytest.fixture(autouse=True, scope="session")
def few_crops():
    """A few large pictures give hundreds of crops, not ten thousand: these take half a second each time."""
    from niso.data.pairs import pictures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "CROPS", 600)
        yield


@pytest.fixture(autouse=True, scope="session")
def crops_once():
    """Crops of the same photographs are drawn once: runs of the torus and sphere draw thousands each time."""
    from niso.data.photographs import crops
    from niso.data.pictures import word_of

    drawn = dict[tuple[Any, ...], torch.Tensor]()

    def once(images: list[Image.Image], *settings: Any) -> torch.Tensor:
        which = (*map(word_of, images), *settings)
        if which not in drawn:
            drawn[which] = crops(images, *settings)
        return drawn[which].clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("niso.experiments.laplacian.experiment.crops", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def options_once():
    """Docstrings and annotations of options are read once: hundreds of calls would parse the same each time."""
    from tyro import _docstrings, _resolver

    with pytest.MonkeyPatch.context() as patch:
        if read := getattr(_docstrings, "get_field_docstring", None):  # other versions of tyro take longer
            patch.setattr(_docstrings, "get_field_docstring", cache(read))
        if hints := getattr(_resolver, "_get_type_hints_backported_syntax", None):
            once = cache(hints)
            patch.setattr(_resolver, hints.__name__, lambda *given, **named: dict(once(*given, **named)))
        yield


@pytest.fixture(autouse=True)
def seeded():
    tests.checks.tests.begun += 1
    torch.default_generator.manual_seed(0)  # torch.manual_seed also looks for GPUs, and formats its caller's stack


@pytest.fixture
def registries():
    """What a test registers is forgotten after it."""
    yield
    for registry in Registry.all:
        registry.reset()


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def device():
    """A GPU, a pretended one where there is none: tests that use it are marked cuda, and compare it with the CPU."""
    from tests.pretended import pretended_gpu

    with nullcontext(torch.device("cuda")) if torch.cuda.is_available() else pretended_gpu() as gpu:
        yield gpu


@pytest.fixture
def tolerance(dtype):
    """What a handful of well-conditioned matrix products may lose."""
    return 2e-5 if dtype == torch.float32 else 1e-11


# The command line, in this process and in processes of its own

ROOT = Path(__file__).parents[1]
TINY = "--size 4 --images 3 --pool 50 --steps 3 --batch-size 1 --evaluation-pairs 2".split()
CONSOLE_SCRIPT = "import sys\nfrom niso.cli.main import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


class Result(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def tiny() -> list[str]:
    """Options that make any preset of the torus a matter of milliseconds."""
    return list(TINY)


@pytest.fixture
def niso(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Calls the `niso` command inside this process."""
    from niso.cli.main import main

    def call(*words: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        return Result(int(stop.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def refused(niso: Callable[..., Result]) -> Callable[..., str]:
    """Calls `niso`, expects exit status 2, no output, and one line on stderr, which it returns."""

    def call(*words: object) -> str:
        status, out, err = niso(*words)
        assert status == 2, err
        assert out == ""
        lines = [line for line in err.splitlines() if not line.startswith("pretrain ")]  # a bar's plain line
        assert len(lines) == 1 and lines[0].startswith("niso: "), err
        return lines[0]

    return call


@contextmanager
def processes(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Gives what starts a program, by default the console script, in a process group of its own.

    Where that can be, it is forked from this process.
    """
    script = Path(sysconfig.get_path("scripts"), "niso")
    if not script.exists():  # not installed: what pip would write
        script = folder / "niso"
        script.write_text(CONSOLE_SCRIPT)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "MPLBACKEND": "Agg", "PYTHONPATH": paths}
    started: list[subprocess.Popen[str]] = []

    def call(*words: object, program: Path = script, cwd: Path = folder) -> subprocess.Popen[str]:
        process = Popen(
            [sys.executable, str(program), *map(str, words)],
            cwd=cwd,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield call
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts programs; those that still run at the end of the test are killed."""
    with processes(tmp_path) as call:
        yield call


@pytest.fixture(scope="module")
def start_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """The same for all tests of a module."""
    with processes(tmp_path_factory.mktemp("processes")) as call:
        yield call


@pytest.fixture
def heeded() -> Iterator[None]:
    """No signal is ignored, as below nohup or behind `&` in a script; one that comes too early or too late does
    nothing."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    previous = {number: signal.signal(number, lambda *_: None) for number in numbers}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.fixture
def when() -> Iterator[Callable[[list[Path], Callable[[], object]], None]]:
    """Does something, in a thread, when all of these files exist."""
    threads, ended = list[threading.Thread](), threading.Event()

    def watch(files: list[Path], act: Callable[[], object]) -> None:
        while not all(file.exists() for file in files):
            if ended.wait(0.01):
                return
        act()

    def begin(files: list[Path], act: Callable[[], object]) -> None:
        threads.append(threading.Thread(target=watch, args=(files, act)))
        threads[-1].start()

    yield begin
    ended.set()
    for thread in threads:
        thread.join()


# Programs without the check of types, which is on in this suite and does not go with torch.compile

PROGRAMS = """
import contextlib, io, json, sys, traceback
import torch
torch.set_num_threads(1)
for line in sys.stdin:
    error, out = "", io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(json.loads(line), "<program>", "exec"), {"__name__": "program"})
    except BaseException:
        error = traceback.format_exc()
    torch.compiler.reset()
    print(json.dumps([out.getvalue(), error]), flush=True)
"""


@pytest.fixture(scope="session")
def outside() -> Iterator[Callable[[str], str]]:
    """Runs programs in a process of their own, one after the other, for importing the compiler takes seconds.

    Gives what a program prints; what it changes in a module it must put back.
    """
    command, settings = [sys.executable, "-c", PROGRAMS], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, env={**os.environ, **settings}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None

    def run(program: str) -> str:
        print(json.dumps(program), file=process.stdin, flush=True)
        printed, error = json.loads(process.stdout.readline())
        assert not error, error
        return printed

    yield run
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


# Figures: axes and pixels would take nine tenths of a tiny run's time


@pytest.fixture(scope="session")
def blank_png() -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (2, 2)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture(autouse=True, scope="session")
def blank_figures(blank_png: bytes) -> Iterator[dict[str, Any]]:
    """Runs keep one blank picture in place of theirs, and pictures have no pixels; see `drawn`."""
    from matplotlib.figure import Figure

    from niso.report import Picture, page, pictures, save_pictures

    def draw_nothing() -> Picture:
        return Picture("blank", "Nothing is drawn here.", Figure((1, 1)))

    def save_one(_: object, folder: Path) -> None:
        save_pictures([draw_nothing()], folder)

    blank = {
        "niso.report.save_pictures": (save_pictures, save_one),
        "niso.report.page._training": (page._training, lambda run: [draw_nothing() for _ in run.log]),
        "niso.report.pictures.as_png": (pictures.as_png, lambda _: blank_png),
        "niso.report.pictures.darken": (pictures.darken, lambda _: None),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, (_, nothing) in blank.items():
            patch.setattr(name, nothing)
        yield {name: function for name, (function, _) in blank.items()}


@pytest.fixture
def drawn(blank_figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn after all, coarsely."""
    for name, function in blank_figures.items():
        monkeypatch.setattr(name, function)
    monkeypatch.setattr("niso.report.pictures.DPI", 20)


@pytest.fixture(scope="session")
def blank_program(blank_png: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script without figures."""
    path = tmp_path_factory.mktemp("programs") / "niso"
    draw_nothing = (
        "from niso import report\nfrom niso.report import pictures\nreport.save_pictures = lambda *_: None\n"
        f"pictures.as_png = lambda _: {blank_png!r}\n"
    )
    path.write_text(draw_nothing + CONSOLE_SCRIPT)
    return path


@pytest.fixture
def blank_processes(blank_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs side by side draw nothing."""
    monkeypatch.setattr("niso.runs.parallel.COMMAND", (sys.executable, str(blank_program), "resume", "--"))


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of three small images: reading the shipped photographs takes a second each time."""
    folder = tmp_path_factory.mktemp("images")
    for number in range(3):
        pixels = torch.randint(256, (16, 16, 3), generator=torch.Generator().manual_seed(number)).byte()
        Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def small(tiny: list[str], images: Path) -> list[str]:
    """Options of the shortest possible run of the torus."""
    return [*tiny, "--data-dir", str(images)]


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Path:
    from niso.cli.main import main

    folder = tmp_path_factory.mktemp("runs") / "finished"
    with pytest.raises(SystemExit) as stop:
        main(["run", "torus", *TINY, "--data-dir", str(images), "--out", str(folder)])
    assert not stop.value.code
    return folder


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of three steps."""
    return Path(shutil.copytree(finished_once, tmp_path / "finished"))


@pytest.fixture
def reopened() -> Callable[[Path], Path]:
    """Makes a finished run as if killed before its evaluation, and with three more steps to do."""

    def reopen(run: Path) -> Path:
        (run / "metrics.json").unlink()
        path = run / "config.yaml"
        settings = yaml.safe_load(path.read_text())
        settings["config"]["training"]["steps"] = 6
        path.write_text(yaml.safe_dump(settings))
        return run

    return reopen


@pytest.fixture
def unfinished(finished: Path, reopened: Callable[[Path], Path]) -> Path:
    """The finished run, reopened."""
    return reopened(finished)


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a folder one that cannot be listed, to the superuser too, whom no permission binds."""

    def refuse(denied: Path) -> None:
        for name in ("listdir", "scandir"):
            real = getattr(os, name)

            def listed(folder: Any = ".", real: Callable[[Any], Any] = real) -> Any:
                if not isinstance(folder, int) and Path(os.fsdecode(folder)) == denied:
                    raise PermissionError(errno.EACCES, "Permission denied", str(folder))
                return real(folder)

            monkeypatch.setattr(os, name, listed)

    return refuse


@pytest.fixture(scope="session")
def write_video() -> Callable[..., Path]:
    """Writes a video file: frames of grey 20 × number, 240 at most, 10 a second, the upper left corner red."""
    import av
    import numpy as np

    def write(
        path: Path,
        count: int = 12,
        size: tuple[int, int] = (40, 30),
        rotation: float = 0,
        faststart: bool = False,
        aspect: int = 1,
        start: int = 0,
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w", options={"movflags": "faststart"} if faststart else {}) as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
            stream.bit_rate = 4_000_000
            stream.codec_context.sample_aspect_ratio = aspect
            if rotation:
                stream.set_display_rotation(rotation)
            for number in range(count):
                pixels = np.full((size[1], size[0], 3), min(20 * number, 240), np.uint8)
                pixels[:10, :10] = (255, 0, 0)
                frame = av.VideoFrame.from_ndarray(pixels)
                frame.pts, frame.time_base = 10 * start + number, Fraction(1, 10)
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        return path

    return write


@pytest.fixture
def weights() -> Callable[[Path], dict[str, torch.Tensor]]:
    """All tensors of a run's last checkpoint: weights and moments."""
    from niso.training import checkpoint

    return lambda run: checkpoint.load(run / "checkpoints" / "pretrain.safetensors")[0]


@pytest.fixture(scope="session")
def write_pretrained() -> Callable[..., Path]:
    """Writes a tiny untrained DINOv2 or BEiT as transformers stores models: squares of 14×14 pixels, 2×2 of them."""
    transformers = pytest.importorskip("transformers")
    kinds = {
        "dinov2": (transformers.Dinov2Config, {"mlp_ratio": 1}),
        "beit": (transformers.BeitConfig, {"intermediate_size": 8, "use_relative_position_bias": True}),
    }
    common = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    preprocessing = {"size": {"height": 28, "width": 28}, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}

    def write(folder: Path, kind: str, **changes: object) -> Path:
        """Changes are those of preprocessor_config.json."""
        config, own = kinds[kind]
        transformers.utils.logging.disable_progress_bar()
        torch.manual_seed(0)
        transformers.AutoModel.from_config(config(**common, **own)).save_pretrained(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps({**preprocessing, **changes}))
        return folder

    return write


@pytest.fixture
def comparison_table():
    """The rows of a comparison: a mapping for each configuration and metric."""
    from niso.report import sections
    from niso.results import Known

    def rows(runs, known=lambda experiment: Known()):
        return [
            {
                **{name: getattr(group, name) for name in ("preset", "method", "settings")},
                **{name: getattr(estimate, name) for name in ("mean", "standard_error")},
                "metric": key,
                "seeds": list(estimate.seeds),
                "values": list(estimate.values),
                **dict(zip(("worst", "worst_seed"), estimate.worst or (None, None), strict=True)),
            }
            for section in sections(runs, known)
            for group in section.groups
            for key, estimate in group.estimates.items()
        ]

    return rows

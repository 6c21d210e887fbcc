"""What the package promises about itself: its imports, its version, what is in it."""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import grimp
import networkx
import pytest
import yaml

import niso
from niso.export import INSTALL

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "niso").rglob("*.py")
    if path.stem != "__main__"
)
HEAVY = {"lightning", "lightning_fabric", "matplotlib", "skimage", "sklearn", "tensorboard", "transformers"}


def test_no_modules_import_each_other_in_a_circle():
    imports = grimp.build_graph("niso", cache_dir=None)
    arrows = ((a, b) for a in imports.modules for b in imports.find_modules_directly_imported_by(a))
    assert not list(networkx.simple_cycles(networkx.DiGraph(arrows)))


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports_without_the_extras(module):
    importlib.import_module(module)


def test_importing_niso_is_light():
    program = "import sys, niso; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(run.stdout.split())


def test_trained_models_are_listed_and_loaded_without_the_compiler_of_torch():
    program = "import sys, niso.loading, niso.experiments.pose.experiment; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_all_names_exist_once():
    assert len(niso.__all__) == len(set(niso.__all__))
    assert all(hasattr(niso, name) for name in niso.__all__)


def test_one_version():
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "niso.version.__version__"}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == niso.__version__


def test_console_script_points_at_a_function():
    module, _, function = PYPROJECT["project"]["scripts"]["niso"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_type_information_is_shipped():
    assert (ROOT / "niso" / "py.typed").is_file()


def test_constraints_pin_what_make_installs():
    """Exact versions, installable anywhere (no local builds), of niso's own dependencies and those of three extras."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    pins = dict(line.split("==") for line in lines)
    assert not [pin for pin in pins.items() if "+" in pin[1]]
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["test"] + extras["docs"] + extras["view"]
    names = {re.split(r"\[|>=", entry)[0] for entry in wanted} - {"niso"}
    missing = {canonical(name) for name in names} - {canonical(name) for name in pins}
    assert not missing


def test_versions_of_viser_and_rich_fit():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert int(pins["viser"].partition(".")[0]) == 1 and int(pins["rich"].partition(".")[0]) < 15


@pytest.mark.parametrize("extra", ["video", "view", "vision", "hdf5", "hub"])
def test_hints_name_the_package_itself(extra):
    """`niso[extra]` can be installed from an index alone; the package of the extra, beside a clone or a wheel, too."""
    (requirement,) = PYPROJECT["project"]["optional-dependencies"][extra]
    package = requirement.partition(">=")[0]
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "niso").rglob("*.py"))
    assert f"pip install '{requirement}'" in source or f"pip install {package}" in source
    assert f"niso[{extra}]" not in source


def test_the_hint_of_onnx_names_the_packages_of_its_extra():
    hint = shlex.split(INSTALL)[2:]
    for requirement in PYPROJECT["project"]["optional-dependencies"]["onnx"]:
        assert requirement in hint or requirement.partition(">=")[0] in hint


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source distribution of a copy of the project, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    names = "niso tests docs benchmarks studies tools results .github".split()
    for name in names:
        shutil.copytree(ROOT / name, folder / "project" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, folder / "project")
    build = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
    found = []
    project = folder / "project"
    for kind in ("build_sdist", "build_wheel"):
        command = [sys.executable, "-c", build, kind, str(folder)]
        run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
        found.append(folder / run.stdout.splitlines()[-1])
        if kind == "build_sdist":
            with tarfile.open(found[0]) as archive:
                archive.extractall(folder, filter="data")
            project = folder / found[0].name.removesuffix(".tar.gz")
    return found


@pytest.mark.slow
def test_the_source_distribution_can_be_tested(distributions):
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "niso").rglob("*.html")]
    tracked += models()
    wanted = {path.relative_to(ROOT).as_posix() for path in tracked}
    wanted |= {"tests/conftest.py", "constraints.txt", "Makefile", "CONTRIBUTING.md", "docs/images/sphere.png"}
    wanted |= {
        "benchmarks/common.py",
        "studies/fit.py",
        "tools/documents.py",
        ".github/workflows/tests.yml",
    }
    assert not wanted - names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.slow
def test_the_wheel_has_all_files_and_links_that_work_on_an_index(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = set(wheel.namelist())
        metadata = next(wheel.read(name).decode() for name in names if name.endswith("/METADATA"))
    packaged = [
        path for path in (ROOT / "niso").rglob("*") if path.suffix in (".py", ".html", ".css", ".yaml", ".json")
    ]
    packaged += models()
    assert not {path.relative_to(ROOT).as_posix() for path in packaged} - names and "niso/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {"niso", f"niso-{niso.__version__}.dist-info"}
    targets = re.findall(r"\]\(([^)]+)\)", metadata)
    assert targets and all(target.startswith("https://") for target in targets)
    assert f"{PYPROJECT['project']['urls']['Source']}/raw/main/docs/images/sphere.png" in targets
    assert all(f"Project-URL: {name}, {url}" in metadata for name, url in PYPROJECT["project"]["urls"].items())


def test_the_workflow_tests_three_systems_and_all_supported_versions():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    job = workflow["jobs"]["test"]
    assert [name.partition("-")[0] for name in job["strategy"]["matrix"]["os"]] == ["ubuntu", "macos", "windows"]
    prefix = "Programming Language :: Python :: 3."
    supported = [
        entry.removeprefix(prefix) for entry in PYPROJECT["project"]["classifiers"] if entry.startswith(prefix)
    ]
    assert job["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in supported]
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert all(word in commands for word in ("make", "ruff check", "mypy", "lint-imports", "pytest"))


def models() -> list[Path]:
    """Files of the models that come with niso."""
    return [path for path in (ROOT / "niso" / "hub" / "models").rglob("*") if path.is_file()]


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")

"""What the package promises about itself: its layers, its imports, its version."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import networkx
import pytest
import yaml
from importlinter.cli import lint_imports

import niso

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "niso").rglob("*.py")
    if path.stem != "__main__"
)
HEAVY = {"lightning", "lightning_fabric", "matplotlib", "skimage", "sklearn", "tensorboard", "transformers"}


def test_arrows_point_only_downwards(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out


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


def test_all_names_exist_once():
    assert len(niso.__all__) == len(set(niso.__all__))
    assert all(hasattr(niso, name) for name in niso.__all__)


def test_one_version():
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "niso.__version__"}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == niso.__version__


def test_console_script_points_at_a_function():
    module, _, function = PYPROJECT["project"]["scripts"]["niso"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_type_information_is_shipped():
    assert (ROOT / "niso" / "py.typed").is_file()


def test_constraints_pin_every_dependency():
    """The file is what `make` installs from: exact, installable anywhere (no local builds), complete."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    pins = dict(line.split("==") for line in lines)
    assert not [pin for pin in pins.items() if "+" in pin[1]]
    project = PYPROJECT["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    missing = {canonical(entry.split(">=")[0]) for entry in wanted} - {canonical(name) for name in pins}
    assert not missing


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")

"""Settings of the whole suite: which tests are slow, and which stay together."""

import gc
import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is first imported

# Searches of the whole heap, which modules and tests fill with objects that stay, would take a twentieth of the time.
gc.set_threshold(10_000)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the fixtures known, but where tests are only handed out: importing torch takes seconds."""
    if config.getoption("dist", "no") == "no":  # as in the workers of pytest-xdist
        config.pluginmanager.import_plugin("tests.fixtures")


SLOW = (
    "cli/data",
    "data/shapes/test_family.py",
    "data/shapes/test_preparation.py",
    "experiments",
    "runs",
    "test_cli_runs.py",
    "test_processes.py",
    "test_readme.py",
    "training/test_processes.py",
)
"""Tests of whole runs and of processes of their own: `make check` leaves them out, as those that are marked slow.

`make test` begins with files that have such tests.
"""


@pytest.hookimpl(tryfirst=True)  # before tests are selected by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        if file.startswith(SLOW):
            item.add_marker("slow")
        # what shares fixtures stays in one worker: a file, and programs outside
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("outside" if "outside" in item.fixturenames else file))
    first = {item.path for item in items if item.get_closest_marker("slow") or item.path.name == "test_site.py"}
    items.sort(key=lambda item: item.path in first, reverse=True)  # else one worker would be left with the last of them


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stops where pytest-xdist would ignore groups (as with pytest 9.2), for the suite would take twice as long."""
    gc.freeze()  # modules and tests stay
    grouped = session.config.getoption("loadgroup", False)  # in the workers of --dist loadgroup
    if grouped and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist ignores groups: install a pytest that constraints.txt names")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Searches the heap once; pytest does so five times over, and Python when it ends."""
    gc.collect()
    gc.freeze()

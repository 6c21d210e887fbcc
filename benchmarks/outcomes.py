"""A pytest plugin that keeps the outcome of every test at once, a line of JSON each: a run that is cut loses nothing.

Use: pytest -p benchmarks.outcomes --outcomes FILE, also with pytest-xdist.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where outcomes are kept."""
    parser.addoption("--outcomes", type=Path, help="file that every outcome is added to")


def pytest_configure(config: pytest.Config) -> None:
    """Keep outcomes, but in workers, whose reports the process that started them gets."""
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))


class Outcomes:
    """Adds {"test", "outcome", "seconds", "message"} for each phase of a test; "begun" has the first two alone."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.add(test=nodeid, outcome="begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.add(test=report.nodeid, outcome=report.outcome, seconds=report.duration, message=message(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.add(test=report.nodeid, outcome="failed", seconds=0.0, message=message(report))

    def add(self, **entry: Any) -> None:
        """Add a line."""
        with self.file.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test failed, in brief."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)[:400] if report.failed else ""

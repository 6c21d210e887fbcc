"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Mapping


class Times:
    """Seconds of the parts of a run's commands, by the wall's clock: each ends where the next begins.

    Args:
        began: when the first part began, by `time.monotonic`; now by default.
        before: what earlier commands of the same run took.
    """

    def __init__(self, began: float | None = None, before: Mapping[str, float] | None = None) -> None:
        self.seconds: dict[str, float] = dict(before or {})
        self._last = time.monotonic() if began is None else began

    def end(self, part: str) -> None:
        """What passed since the last part was this one, or more of it."""
        now = time.monotonic()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now

    def at_least(self, part: str, seconds: float) -> None:
        """A part took these seconds or more, some of them in commands that were killed."""
        if part in self.seconds:
            self.seconds[part] = max(self.seconds[part], seconds)

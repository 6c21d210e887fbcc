"""Where the time of a command goes."""

from __future__ import annotations

import time


class Times:
    """Seconds of the parts of a command, by the wall's clock: each ends where the next begins.

    Args:
        began: when the first part began, by `time.monotonic`; now by default.
    """

    def __init__(self, began: float | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic() if began is None else began

    def end(self, part: str) -> None:
        """What passed since the last part was this one, or more of it."""
        now = time.monotonic()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now

"""What reaps a process that is left to itself."""

from __future__ import annotations

from typing import cast

import trio

from engine.process.run_tree import _reap  # it is started as a system task only
from engine.process.start import StartedProcess


class _Lost:
    async def wait(self) -> int:
        await trio.lowlevel.checkpoint()
        raise OSError("the process can't be waited for")


async def test_process_that_can_not_be_reaped_ends_nothing() -> None:
    """An error of a system task would end the host's whole run of Trio."""
    await _reap(cast("StartedProcess", _Lost()))

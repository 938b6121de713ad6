"""What a process frees goes back to the system, also between blocks that stay."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A freed block of 8 MB is what makes glibc take later ones from the heap. Of pairs of blocks, one stays.
PROGRAM = """
import sys
from engine.process.allocator import map_large_blocks
if sys.argv[1] == "mapped" and not map_large_blocks():
    raise SystemExit("not glibc")
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
del bytearray(8 << 20)[:]
blocks = [bytearray(100_000) for _ in range(400)]
del blocks[::2]
print(resident())
"""


def resident(how: str) -> int:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=False
    )
    if "not glibc" in ended.stderr:
        pytest.skip("another C library")
    return int(ended.stdout)


@pytest.mark.os
@pytest.mark.skipif(sys.platform != "linux", reason="it is about glibc")
def test_gaps_go_back_to_the_system() -> None:
    assert resident("mapped") < resident("not mapped") - 10_000_000

"""Work for workers of a real cluster, as a text; see `tests.ray_cluster.test_cluster`."""

import os
import time
from pathlib import Path


def run(work: str) -> str:
    """Say in a file that it runs, and wait for the end of it; `stubborn` work does not heed interrupts."""
    kind, _, path = work.partition(" ")
    if kind == "quick":
        return path.upper()
    Path(path).write_text(str(os.getpid()))
    while True:
        try:
            time.sleep(0.1)
        except KeyboardInterrupt:
            if kind != "stubborn":
                return "interrupted"

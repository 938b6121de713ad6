"""Scripts that were written by hand, going through bash's manual, to be hard to scan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("written.txt")


def written() -> dict[str, list[str]]:
    """Return the scripts by the part of the manual that they are about.

    A line `## part` begins a part, and a line with `%` alone parts its scripts.
    """
    _, *parts = re.split(r"^## (.*)\n", FILE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], (text.removesuffix("\n").split("\n%\n") for text in parts[1::2]), strict=True))

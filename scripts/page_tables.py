"""Write the table of characters that the page writes out, from the engine's own.

    python -m scripts.page_tables            print what differs, and exit with 1; nothing otherwise
    python -m scripts.page_tables --write    write the file (`make surface` does)

`tests/control/page/test_page_text.py` fails where the file differs.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from engine.export.sanitize import BLANK_RANGES, UNSAFE_RANGES

TABLE = Path(__file__).resolve().parent.parent / "engine" / "control" / "page" / "unsafe-chars.js"


def table_text() -> str:
    """Return the file."""
    return (
        "// Written by scripts/page_tables.py from engine/export/sanitize.py: change it there, then run `make surface`.\n\n"
        f"export const UNSAFE =\n  String.raw`{_class(UNSAFE_RANGES)}`;\n"
        f"export const BLANK =\n  String.raw`{_class(BLANK_RANGES)}`;\n"
    )


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(
        f"\\u{{{first:x}}}" if first == last else f"\\u{{{first:x}}}-\\u{{{last:x}}}" for first, last in ranges
    )


def main(arguments: list[str]) -> int:
    """Compare, or write."""
    if arguments == ["--write"]:
        TABLE.write_text(table_text(), "utf-8")
        return 0
    if TABLE.read_text("utf-8") == table_text():
        return 0
    print(f"{TABLE.name} differs from engine/export/sanitize.py: run `make surface`")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

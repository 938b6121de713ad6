"""Write the picture of the demo: `docs/demo.svg` and, as an animation, `docs/demo-animated.svg`.

The demo really runs, in a terminal of 100 columns. Its lines are drawn in the colours that it printed; the picture's own are
their pace, so that one can read along, the frame, and the shades of headings, speakers and bars. `tests/cli/demo` fails when
the demo prints other lines than the picture has, figures aside.
"""

from __future__ import annotations

import html
import os
import pty
import re
import select
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import attrs
import pyte
from pyte.screens import Char

REPOSITORY: Final = Path(__file__).resolve().parent.parent
STILL: Final = REPOSITORY / "docs" / "demo.svg"
ANIMATED: Final = REPOSITORY / "docs" / "demo-animated.svg"
# The demo lays its lines out for so many columns; some are longer.
_WIDTH: Final = 100
COLUMNS: Final = 160
_ROWS_SHOWN: Final = 30
# More than the demo prints, so that nothing scrolls away before it is read.
_ROWS: Final = 400
_PATIENCE: Final = 120.0
_CELL: Final = 8.43
_LINE: Final = 19
_MARGIN: Final = 18
_BAR: Final = 34
_SECONDS_A_LINE: Final = 0.22
# Where the reader needs time.
_PAUSES: Final = (
    ("Watch:", 1.6),
    ("you    ", 0.9),
    ("ask    ", 0.8),
    ("tool   ■", 0.8),
    ("Checks", 1.2),
    ("What ran", 2.5),
)
_LAST_PAUSE: Final = 6.0
# Lines that are there from the beginning.
_INTRODUCTION: Final = 4
_DESCRIPTION: Final = (
    "The demo in a terminal: the engine fixes a bug, asks for permission, is cancelled in the middle of a command, continues, "
    "summarises the history, and draws what ran when."
)
_STYLE: Final = """
svg { --paper: #ffffff; --ink: #1f2328; --dim: #656d76; --red: #b3261e; --green: #1a7f37; --yellow: #7d4e00; --cyan: #0b6a78 }
@media (prefers-color-scheme: dark) {
  svg { --paper: #0d1117; --ink: #e6edf3; --dim: #8b949e; --red: #ff7b72; --green: #56d364; --yellow: #e3b341; --cyan: #76e3ea }
}
.paper, .cover { fill: var(--paper) } .frame { fill: none; stroke: var(--dim); stroke-opacity: .4 }
.bar { fill: var(--dim); fill-opacity: .12 } .dot { fill: var(--dim); fill-opacity: .45 } .name { text-anchor: middle }
.dim, .name { fill: var(--dim) }
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: var(--ink); white-space: pre }
.red { fill: var(--red) } .green { fill: var(--green) } .brown { fill: var(--yellow) } .cyan { fill: var(--cyan) }
.bold { font-weight: 600 }
"""


@attrs.frozen
class Piece:
    """A part of a line in one style."""

    text: str
    css: str


Row = tuple[Piece, ...]


def record() -> list[Row]:
    """Run the demo in a terminal, and return the lines that it printed."""
    screen = pyte.Screen(COLUMNS, _ROWS)
    stream = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory(prefix="engine-picture-") as home:
        child, terminal = pty.fork()
        if not child:
            path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH", ""))))
            clean = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
            own = {"HOME": home, "TERM": "xterm", "COLUMNS": str(_WIDTH), "LINES": str(_ROWS), "PYTHONPATH": path}
            arguments = [sys.executable, "-m", "engine", "demo", "--html", f"{home}/demo.html"]
            os.execve(sys.executable, arguments, {"LANG": "C.UTF-8", **clean, **own})  # noqa: S606  # no shell is needed
        while select.select([terminal], [], [], _PATIENCE)[0]:
            try:
                data = os.read(terminal, 65_536)
            except OSError:  # the demo has ended, and the terminal with it
                break
            stream.feed(data.replace(home.encode(), b"~"))
        os.close(terminal)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise SystemExit(f"the demo has failed: exit code {code}")
    rows = [_row(screen.buffer[number][column] for column in range(COLUMNS)) for number in range(_ROWS)]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _row(chars: Iterable[Char]) -> Row:
    pieces = [
        Piece("".join(char.data for char in run), css)
        for css, run in groupby(
            chars, lambda char: " ".join(filter(None, (_colour(char), "bold" if char.bold else "")))
        )
    ]
    while pieces and not pieces[-1].text.strip():
        pieces.pop()
    return tuple(pieces[:-1]) + ((Piece(pieces[-1].text.rstrip(), pieces[-1].css),) if pieces else ())


def _colour(char: Char) -> str:
    return "" if char.fg == "default" else char.fg


def text_of(row: Row) -> str:
    """Return the text of *row*."""
    return "".join(piece.text for piece in row)


# What the picture shades: headings, who speaks, asides, and in the lanes what runs and what a cancel does.
_SHADES: Final = re.compile(
    r"(?P<bold>^(?:\d\. .*|Checks|What ran when|Turn \d+))|(?P<dim>^(?:you|model|ask|tool)(?= {2,})| +· .*| {7}[A-Zacflmptw].*"
    r"|(?<= )·+(?=[ █]))|(?P<red>┃.*|^ {11}-(?!-).*)|(?P<green>^ {11}\+(?!\+).*|^✓)|(?P<cyan>█+)"
)


def _shaded(text: str) -> Iterator[Piece]:
    """Split text that the demo printed without a colour."""
    end = 0
    for match in _SHADES.finditer(text):
        yield Piece(text[end : match.start()], "")
        yield Piece(match[0], str(match.lastgroup))
        end = match.end()
    yield Piece(text[end:], "")


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    for number, row in enumerate(rows):
        if not row:
            continue
        is_plain = all(not piece.css for piece in row)
        pieces = list(_shaded(text_of(row))) if is_plain else [*_shaded(row[0].text), *row[1:]]
        spans = "".join(
            f'<tspan class="{piece.css}">{html.escape(piece.text, quote=False)}</tspan>'
            if piece.css
            else html.escape(piece.text, quote=False)
            for piece in pieces
            if piece.text
        )
        yield f'<text x="{_MARGIN}" y="{_MARGIN + (number + 1) * _LINE - 5}">{spans}</text>'


def _svg(rows: Sequence[Row], shown: int, style: str, cover: str = "") -> str:
    columns = max(len(text_of(row)) for row in rows)
    width, inner = round(columns * _CELL + 2 * _MARGIN), shown * _LINE + 2 * _MARGIN
    height = inner + _BAR
    text = "\n".join(_lines(rows))
    dots = "".join(f'<circle class="dot" cx="{20 + 18 * dot}" cy="{_BAR // 2}" r="5.5"/>' for dot in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="title desc">\n<title id="title">engine demo</title>\n<desc id="desc">{_DESCRIPTION}</desc>\n'
        f"<style>{style}</style>\n"
        f'<clipPath id="window"><rect width="{width}" height="{height}" rx="9"/></clipPath>\n'
        f'<clipPath id="screen"><rect width="{width}" height="{shown * _LINE + 8}" y="{_MARGIN - 4}"/></clipPath>\n'
        f'<g clip-path="url(#window)"><rect class="paper" width="{width}" height="{height}"/>'
        f'<rect class="bar" width="{width}" height="{_BAR}"/>{dots}'
        f'<text class="name" x="{width // 2}" y="{_BAR // 2 + 5}">$ engine demo</text></g>\n'
        f'<rect class="frame" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9"/>\n'
        f'<g transform="translate(0 {_BAR})"><g clip-path="url(#screen)"><g class="lines">\n{text}\n'
        f"{cover.format(width=width - 2)}</g></g></g>\n</svg>\n"
    )


def still(rows: Sequence[Row]) -> str:
    """Return the picture of what matters most: the cancel, and what ran when around it."""
    texts = [text_of(row) for row in rows]

    def place(start: str) -> int:
        return next(number for number, text in enumerate(texts) if text.startswith(start))

    chosen = [*rows[place("2. ") : place("3. ")], *rows[place("Turn 2 ") : place("Turn 3 ") - 1]]
    return _svg(chosen, len(chosen), _STYLE)


def animated(rows: Sequence[Row]) -> str:
    """Return all lines as an animation that scrolls them past."""
    seconds = [
        _SECONDS_A_LINE + next((pause for start, pause in _PAUSES if start in text_of(row)[:14]), 0.0) for row in rows
    ]
    seconds[:_INTRODUCTION] = [0.01] * _INTRODUCTION
    seconds[-1] += _LAST_PAUSE
    total, now = sum(seconds), 0.0
    scroll, reveal = list[str](), list[str]()
    for number, lasts in enumerate(seconds, 1):
        time = f"{100 * now / total:.2f}%"
        if number > _ROWS_SHOWN:
            scroll.append(f"{time} {{ transform: translateY({(_ROWS_SHOWN - number) * _LINE}px) }}")
        reveal.append(f"{time} {{ transform: translateY({number * _LINE}px) }}")
        now += lasts
    last = f"translateY({(_ROWS_SHOWN - len(rows)) * _LINE}px)"
    style = (
        f"{_STYLE}.lines {{ transform: {last}; animation: scroll {total:.1f}s step-end infinite }}\n"
        f".cover {{ transform: translateY({len(rows) * _LINE}px); animation: reveal {total:.1f}s step-end infinite }}\n"
        f"@keyframes scroll {{ 0% {{ transform: none }} {' '.join(scroll)} }}\n"
        f"@keyframes reveal {{ {' '.join(reveal)} }}\n"
        "@media (prefers-reduced-motion: reduce) { .lines, .cover { animation: none } }\n"
    )
    # What is not printed yet is covered. A screen is enough: what is below it is not seen.
    cover = (
        f'<rect class="cover" x="1" y="{_MARGIN}" width="{{width}}" height="{(_ROWS_SHOWN + 1) * _LINE + _MARGIN}"/>'
    )
    return _svg(rows, _ROWS_SHOWN, style, cover)


def main() -> None:
    """Write both pictures."""
    rows = record()
    for path, picture in ((STILL, still(rows)), (ANIMATED, animated(rows))):
        path.write_text(picture, encoding="utf-8")
        print(f"{path.relative_to(REPOSITORY)}: {len(picture.encode()):,} bytes")


if __name__ == "__main__":
    main()

"""Jupyter notebooks for `read`: cells and outputs, instead of the JSON of the file."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, cast

import attrs

from engine.core.messages import ImagePart
from engine.providers.wire.untrusted_json import Json, as_list, as_object, is_object, loads, text
from engine.tools.read.image import GOOD_SIDE, picture_of

# A training log may have megabytes.
MAX_OUTPUT_CHARS: Final = 4_000
MAX_IMAGES: Final = 8
_IMAGE_KINDS: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
# Colours and other terminal sequences in outputs.
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@attrs.frozen
class Notebook:
    """A notebook as text, with the images among its outputs."""

    text: str
    images: tuple[ImagePart, ...]


def notebook_of(data: bytes) -> Notebook | None:
    """Parse a notebook; None if *data* is none."""
    try:
        document = loads(data.decode("utf-8-sig"))
    except ValueError:
        return None
    cells = _cells(document)
    if cells is None:
        return None
    writer = _Writer()
    for number, cell in enumerate(cells, start=1):
        writer.add_cell(number, as_object(cell))
    return Notebook("\n".join(writer.lines) + "\n" if writer.lines else "", tuple(writer.images))


def _cells(document: object) -> list[object] | None:
    if not is_object(document):
        return None
    cells: object = document.get("cells")
    if cells is None:  # version 3, from before 2014
        sheets = as_list(document.get("worksheets"))
        cells = as_object(sheets[0]).get("cells") if sheets else None
    return cast("list[object]", cells) if isinstance(cells, list) else None


@attrs.define
class _Writer:
    lines: list[str] = attrs.field(factory=list[str])
    images: list[ImagePart] = attrs.field(factory=list[ImagePart])

    def add_cell(self, number: int, cell: Json) -> None:
        kind = text(cell, "cell_type") or "unknown"
        run = cell.get("execution_count", cell.get("prompt_number"))
        self.lines.append(f"--- cell {number}: {kind}{f', run {run}' if isinstance(run, int) else ''} ---")
        self.lines += _lines(cell.get("source", cell.get("input")))
        for output in as_list(cell.get("outputs")):
            self.add_output(as_object(output))

    def add_output(self, output: Json) -> None:
        kind = text(output, "output_type")
        if kind in {"error", "pyerr"}:
            self.add_error(output)
            return
        name = text(output, "name") or text(output, "stream")
        self.lines.append(f"--- output{f' to {name}' if name else ''} ---")
        # In version 3 the data are members of the output itself.
        data = as_object(output.get("data")) or output
        shown = next((value for key in ("text", "text/plain") if (value := data.get(key)) is not None), None)
        if shown is not None:
            self.add_text("\n".join(_lines(shown)))
        others = [key for key in data if "/" in key and key != "text/plain"]
        for key in others:
            self.add_other(key, data.get(key), has_text=shown is not None)

    def add_error(self, output: Json) -> None:
        self.lines.append("--- error ---")
        traceback = "\n".join(line for line in as_list(output.get("traceback")) if isinstance(line, str))
        self.add_text(traceback or f"{text(output, 'ename')}: {text(output, 'evalue')}")

    def add_text(self, shown: str) -> None:
        plain = _ESCAPE.sub("", shown)
        self.lines += plain[:MAX_OUTPUT_CHARS].split("\n")
        if len(plain) > MAX_OUTPUT_CHARS:
            self.lines.append(f"({len(plain) - MAX_OUTPUT_CHARS:,} more characters of this output are not shown)")

    def add_other(self, kind: str, value: object, *, has_text: bool) -> None:
        """Add a further form of an output: images are attached, others named unless there is a text."""
        if kind in _IMAGE_KINDS:
            image = _image("".join("".join(_lines(value)).split())) if len(self.images) < MAX_IMAGES else None
            if image is not None:
                self.images.append(image)
            number = f"image {len(self.images)}, attached" if image is not None else "an image, not shown"
            self.lines.append(f"({number})")
        elif not has_text:
            self.lines.append(f"({kind}, not shown)")


def _image(data: str) -> ImagePart | None:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    picture = picture_of(decoded)
    if picture is None or not picture.fits(len(decoded), GOOD_SIDE):
        return None
    return ImagePart(media_type=picture.media_type, data=data)


def _lines(value: object) -> list[str]:
    """Return the lines of a text, which a notebook stores as a string or a list of lines."""
    joined = value if isinstance(value, str) else "".join(line for line in as_list(value) if isinstance(line, str))
    return joined.removesuffix("\n").split("\n") if joined else []

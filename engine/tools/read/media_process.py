"""PDFs and large images, processed for `read` in a separate process: see `media_worker`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.process.run_tree import run_tree
from engine.providers.wire.untrusted_json import Json, as_object, loads, text
from engine.tools.call_values import GRACE
from engine.tools.tool_context import ToolContext

_PROGRAM: Final = Path(__file__).with_name("media_worker.py")
# The time after which the program stops by itself with a partial result, and after which it is killed.
_SECONDS: Final = 15
_WAIT: Final = 20.0
# A scaled image has at most 4 MB; a program that was taken over must not fill our memory.
_MAX_OUTPUT: Final = 16_000_000
# What libraries need in order to be found and loaded. No secrets: a malicious file may take the program over.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "TMPDIR")


@attrs.frozen
class Answer:
    """The program's output: facts, and the text or the image."""

    facts: Json
    body: bytes


def has_library(*names: str) -> bool:
    """Return whether one of these packages can be imported. It accesses the disk."""
    return any(find_spec(name) is not None for name in names)


# Device and inode: the path may lead to another file by now, which was not approved.
Identity = tuple[int, int]
_ANY: Final = (-1, -1)


async def pdf_text(path: Path, identity: Identity | None, ctx: ToolContext, *, pages: int, size: int) -> Answer:
    """Return the text of a PDF. A checkpoint; raises `ToolError`. If cancelled, the process is ended."""
    return await _run(ctx, "pdf", path, *(identity or _ANY), pages, size, _SECONDS)


async def scaled_image(
    path: Path, identity: Identity | None, ctx: ToolContext, *, side: int, size: int, pixels: int
) -> Answer:
    """Return an image scaled down. A checkpoint; raises `ToolError`. If cancelled, the process is ended."""
    return await _run(ctx, "image", path, *(identity or _ANY), side, size, pixels)


async def _run(ctx: ToolContext, command: str, path: Path, *limits: int) -> Answer:
    output = bytearray()

    def take(chunk: bytes) -> None:
        if len(output) <= _MAX_OUTPUT:
            output.extend(chunk)

    try:
        finished = await run_tree(
            # `-P`: the folder of the program is not searched for modules, nor is the working directory.
            [sys.executable, "-P", str(_PROGRAM), command, str(path), *map(str, limits)],
            cwd="/",
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            marker=ctx.call_id,
            on_output=take,
            timeout=_WAIT,
            grace=0.8 * GRACE,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"no process could be started for it: {error}") from error
    if finished.timed_out:
        raise ToolError(f"it took longer than {_WAIT:g} s")
    head, _, body = bytes(output).partition(b"\n")
    try:
        facts = as_object(loads(head.decode()))
    except ValueError:
        facts = Json()
    if not facts or not finished.output_complete or len(output) > _MAX_OUTPUT:
        raise ToolError("the program that takes it apart failed")
    if "error" in facts:
        raise ToolError(text(facts, "error").rstrip("."))
    return Answer(facts, body)

"""PDFs that are read."""

import base64
import importlib.util
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import trio

from engine.core.errors import ToolError
from engine.core.messages import FilePart
from engine.files.read_state import digest, last_read
from engine.tools.builtin.read import Read, read
from engine.tools.call_values import ToolOutput
from engine.tools.read import media_worker as read_media
from engine.tools.read.pdf import MAX_ATTACHED_BYTES
from engine.tools.tool_context import ToolContext
from tests.support.media import pdf

pytestmark = pytest.mark.os

HAS_LIBRARY = any(importlib.util.find_spec(name) for name in ("pypdfium2", "pypdf"))
needs_library = pytest.mark.skipif(not HAS_LIBRARY, reason="neither pypdfium2 nor pypdf is installed")


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let none be found, as Python itself provides for."""
    for name in ("pypdfium2", "pypdf"):
        monkeypatch.setitem(sys.modules, name, None)


TWO = pdf("First page\nsecond line", "Second page")


async def run(ctx: ToolContext, path: str, **more: int) -> ToolOutput:
    return await read(Read(path, **more), ctx)


def part(data: bytes, name: str) -> FilePart:
    return FilePart(media_type="application/pdf", data=base64.b64encode(data).decode(), name=name)


# ---- whatever is installed -------------------------------------------------------------------------------------------


async def test_pdf_is_attached_under_any_name(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "paper").write_bytes(TWO)
    output = await run(ctx, "paper")
    assert output.files == (part(TWO, "paper"),)
    assert output.text.startswith(f"(paper is a PDF of {len(TWO):,} bytes, attached; ")
    assert output.is_cut
    assert output.modify is not None
    assert last_read(output.modify(ctx.shared), tmp_path / "paper") == digest(TWO)


@pytest.mark.usefixtures("no_library")
async def test_without_a_library_it_has_no_text(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(TWO)
    text = (await run(ctx, "a.pdf")).text
    assert text.endswith("; its text could not be taken out: that needs the extra 'pdf' of nursery-engine)")


@pytest.mark.usefixtures("no_library")
async def test_large_pdf_without_library_is_refused(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "large.pdf").write_bytes(TWO + b" " * MAX_ATTACHED_BYTES)
    (tmp_path / "locked.pdf").write_bytes(pdf("x", trailer="/Encrypt 4 0 R "))
    with pytest.raises(ToolError, match=r"which can't be shown: it is larger than 10,000,000 bytes, and its text"):
        await run(ctx, "large.pdf")
    with pytest.raises(ToolError, match="which can't be shown: it is encrypted, and its text"):
        await run(ctx, "locked.pdf")


async def test_too_large_pdf(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(TWO)
    os.truncate(tmp_path / "a.pdf", 300_000_000)
    with pytest.raises(
        ToolError, match="it is larger than 10,000,000 bytes, and its text could not be taken out: it is too"
    ):
        await run(ctx, "a.pdf")


# ---- with a library --------------------------------------------------------------------------------------------------


@needs_library
async def test_pdf_comes_with_its_text(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(TWO)
    assert (await run(ctx, "a.pdf")).text.split("\n") == [
        f"(a.pdf is a PDF of {len(TWO):,} bytes, attached; 2 pages; this is the text)",
        "     1\t--- page 1 ---",
        "     2\tFirst page",
        "     3\tsecond line",
        "     4\t--- page 2 ---",
        "     5\tSecond page",
    ]


@needs_library
async def test_a_part_of_its_text(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(TWO)
    output = await run(ctx, "a.pdf", offset=3, limit=2)
    assert output.files == ()
    assert output.text.split("\n") == [
        f"(a.pdf is a PDF of {len(TWO):,} bytes, attached when it is read from its first line; 2 pages; this is the text)",
        "     3\tsecond line",
        "     4\t--- page 2 ---",
        "(lines 3-4; the file goes on: read it with offset=5)",
    ]
    with pytest.raises(ToolError, match=r"a\.pdf has only 5 lines"):
        await run(ctx, "a.pdf", offset=6)


@needs_library
async def test_long_pdf_is_text_only(ctx: ToolContext, tmp_path: Path) -> None:
    data = pdf(*(f"This is page {n}" for n in range(1, 102)))
    (tmp_path / "a.pdf").write_bytes(data)
    output = await run(ctx, "a.pdf")
    assert output.files == ()
    assert "bytes, not attached: it has 101 pages, and hosts take 100; 101 pages; this is the text)" in output.text
    assert output.text.endswith("   202\tThis is page 101")


@needs_library
async def test_pdf_without_text(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("", ""))
    output = await run(ctx, "a.pdf")
    assert output.text.endswith(" bytes, attached; 2 pages without a text: images, it seems)")
    assert len(output.files) == 1


@needs_library
@pytest.mark.parametrize(
    "data",
    [b"%PDF-1.7\nnothing", TWO[:200], b"%PDF-" + b"\xff" * 5_000, TWO.replace(b"/Pages 2 0 R", b"/Pages 1 0 R")],
    ids=["empty", "cut", "noise", "circle"],
)
async def test_broken_pdf_is_attached_or_refused(ctx: ToolContext, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pdf").write_bytes(data)
    with trio.fail_after(30):
        output = await run(ctx, "a.pdf")
    assert "its text could not be taken out: " in output.text or "page" in output.text


@needs_library
async def test_cancelled_text_extraction(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(*(f"page {n}" for n in range(2_000))))
    with trio.move_on_after(0.005) as scope:  # less than any process takes to start
        await run(ctx, "a.pdf")
    assert scope.cancelled_caught


# ---- the program by itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pypdfium2", "pypdf"])
def test_each_library(tmp_path: Path, name: str) -> None:
    pytest.importorskip(name)
    (tmp_path / "a.pdf").write_bytes(TWO)
    with_library = {"pypdfium2": read_media._with_pdfium, "pypdf": read_media._with_pypdf}[name]
    with (tmp_path / "a.pdf").open("rb") as file:
        found = with_library(file)
        assert found is not None
        count, text_of = found
        pages = [text_of(index).replace("\r\n", "\n").strip() for index in range(count)]
    assert pages == ["First page\nsecond line", "Second page"]


@pytest.mark.parametrize(("pages", "size", "seconds", "read"), [(1, 1_000, 9, 1), (9, 5, 9, 1), (9, 1_000, 0, 0)])
@needs_library
def test_the_work_is_bounded(tmp_path: Path, pages: int, size: int, seconds: int, read: int) -> None:
    (tmp_path / "a.pdf").write_bytes(TWO)
    with (tmp_path / "a.pdf").open("rb") as file:
        head, body = read_media.pdf(file, pages, size, seconds)
    assert (head["pages"], head["read"]) == (2, read)
    assert len(body) <= size


@pytest.mark.parametrize(
    "arguments", [["pdf", "/nowhere.pdf", "1", "1", "1"], ["image", "/nowhere.png", "1", "1", "1"]]
)
def test_errors_are_reported(arguments: list[str]) -> None:
    program = [sys.executable, "-P", read_media.__file__, *arguments]
    finished = subprocess.run(program, capture_output=True, check=True)
    head, _, body = finished.stdout.partition(b"\n")
    assert list(json.loads(head)) == ["error"]
    assert body == finished.stderr == b""


# What it expands to takes pdfium more than two gigabytes.
BOMB_TEXT = b"BT /F1 12 Tf 1 0 0 1 9 9 Tm " + b"(abcdefgh) Tj\n" * 6_000_000 + b"ET"
# Of all its children, in kilobytes.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.os
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not limit memory")
@needs_library
def test_bomb_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "bomb.pdf"
    content = zlib.compress(BOMB_TEXT, 1)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    whole = b"%PDF-1.4\n"
    places: list[int] = []
    for number, one in enumerate(objects, 1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    file.write_bytes(whole + end % (table, len(whole)))
    worker = [sys.executable, "-P", read_media.__file__, "pdf", str(file), "-1", "-1", "10", "1000000", "15"]
    measured = subprocess.run([sys.executable, "-c", PEAK, *worker], capture_output=True, check=True)
    assert int(measured.stdout) < 700_000

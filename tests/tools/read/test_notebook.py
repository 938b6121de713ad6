"""Notebooks that are read."""

import base64
import json
from pathlib import Path

import pytest

from engine.core.messages import ImagePart
from engine.files.read_state import digest, last_read
from engine.tools.builtin.read import Read, read
from engine.tools.read.notebook import MAX_IMAGES, MAX_OUTPUT_CHARS, Notebook, notebook_of
from engine.tools.tool_context import ToolContext
from tests.support.media import png

DOT = base64.b64encode(png(1, 1)).decode()
CELLS: list[object] = [
    {"cell_type": "markdown", "source": ["# Title\n", "text"]},
    {
        "cell_type": "code",
        "execution_count": 3,
        "source": "print(1)\n2",
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["1\n", "\x1b[31mred\x1b[0m\n"]},
            {"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": "<b>2</b>"}},
            {"output_type": "display_data", "data": {"image/png": DOT[:8] + "\n" + DOT[8:], "text/plain": "<Figure>"}},
            {"output_type": "display_data", "data": {"application/vnd.plotly": {}}},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[0;31mE\x1b[0m", "at 1: v"]},
            {"output_type": "error", "ename": "E", "evalue": "v"},
        ],
    },
    {"cell_type": "code", "execution_count": None, "source": [], "outputs": []},
]
TEXT = """\
--- cell 1: markdown ---
# Title
text
--- cell 2: code, run 3 ---
print(1)
2
--- output to stdout ---
1
red
--- output ---
2
--- output ---
<Figure>
(image 1, attached)
--- output ---
(application/vnd.plotly, not shown)
--- error ---
E
at 1: v
--- error ---
E: v
--- cell 3: code ---
"""


def written(cells: list[object]) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def test_cells_and_their_outputs() -> None:
    assert notebook_of(written(CELLS)) == Notebook(TEXT, (ImagePart(media_type="image/png", data=DOT),))
    assert notebook_of(b"\xef\xbb\xbf" + written(CELLS)) == notebook_of(written(CELLS))


def test_the_older_form() -> None:
    cells = [
        {"cell_type": "heading", "source": "Title"},
        {
            "cell_type": "code",
            "input": ["1 + 1"],
            "prompt_number": 7,
            "outputs": [
                {"output_type": "pyout", "text": ["2"], "metadata": {}},
                {"output_type": "stream", "stream": "stderr", "text": "oh\n"},
                {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": []},
            ],
        },
    ]
    found = notebook_of(json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}).encode())
    assert found is not None
    assert found.text.split("\n") == [
        "--- cell 1: heading ---",
        "Title",
        "--- cell 2: code, run 7 ---",
        "1 + 1",
        "--- output ---",
        "2",
        "--- output to stderr ---",
        "oh",
        "--- error ---",
        "E: v",
        "",
    ]


def test_long_outputs_are_cut() -> None:
    outputs = [{"output_type": "stream", "text": "x" * (MAX_OUTPUT_CHARS + 5)}]
    found = notebook_of(written([{"cell_type": "code", "source": "", "outputs": outputs}]))
    assert found is not None
    assert found.text.endswith(f"{'x' * MAX_OUTPUT_CHARS}\n(5 more characters of this output are not shown)\n")


@pytest.mark.parametrize(
    "data",
    ["no base64!", base64.b64encode(b"no image").decode(), DOT[:20], base64.b64encode(png(2_001, 1)).decode(), 3, None],
    ids=range(6),
)
def test_unsupported_image_is_not_attached(data: object) -> None:
    outputs = [{"output_type": "display_data", "data": {"image/png": data}}]
    found = notebook_of(written([{"cell_type": "code", "outputs": outputs}]))
    assert found == Notebook("--- cell 1: code ---\n--- output ---\n(an image, not shown)\n", ())


def test_no_more_images_than_a_few() -> None:
    outputs = [{"output_type": "display_data", "data": {"image/png": DOT}}] * (MAX_IMAGES + 1)
    found = notebook_of(written([{"cell_type": "code", "outputs": outputs}]))
    assert found is not None
    assert len(found.images) == MAX_IMAGES
    assert found.text.endswith("(an image, not shown)\n")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"cells": 3}', b'{"cells": {}}', b'{"worksheets": []}', b'{"worksheets": [3]}'],
    ids=range(8),
)
def test_invalid_notebooks(data: bytes) -> None:
    assert notebook_of(data) is None


@pytest.mark.parametrize("data", [b"\xff", b"[" * 100_000, b'{"cells": [' + b"[" * 100_000], ids=range(3))
def test_invalid_json(data: bytes) -> None:
    assert notebook_of(data) is None


ODD: list[object] = [
    *(None, 3, "text", [], {}, {"cell_type": 3, "source": 3, "outputs": 3}, {"source": [1, "a", None]}),
    {"outputs": [None, 3, {}, {"output_type": []}, {"data": []}, {"data": {"text/plain": {}}}, {"traceback": 3}]},
]


def test_cells_of_any_shape() -> None:
    found = notebook_of(written(ODD))
    assert found is not None
    assert found.images == ()
    assert [line for line in found.text.split("\n") if line.startswith("--- cell")] == [
        f"--- cell {n}: unknown ---" for n in range(1, len(ODD) + 1)
    ]


# ---- as a file -------------------------------------------------------------------------------------------------------


async def test_a_notebook_is_shown_as_its_cells(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_bytes(written(CELLS))
    output = await read(Read("a.ipynb"), ctx)
    first, *lines = output.text.split("\n")
    assert first == "(a.ipynb is a notebook; its cells are shown, not the JSON that is in the file)"
    assert [line[7:] for line in lines] == TEXT.removesuffix("\n").split("\n")
    assert len(output.images) == 1
    assert output.modify is not None
    assert last_read(output.modify(ctx.shared), tmp_path / "a.ipynb") == digest(written(CELLS))


async def test_a_part_of_a_notebook(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_bytes(written(CELLS))
    output = await read(Read("a.ipynb", offset=2, limit=1), ctx)
    assert output.text.split("\n")[1:] == ["     2\t# Title", "(lines 2-2; the file goes on: read it with offset=3)"]
    assert output.images == ()


@pytest.mark.parametrize("content", ["not JSON\n", '{"cells": []}', "{}"])
async def test_notebook_in_name_only(ctx: ToolContext, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.ipynb").write_text(content)
    assert (await read(Read("a.ipynb"), ctx)).text == f"     1\t{content.removesuffix(chr(10))}"


async def test_a_notebook_of_another_name_is_a_text(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(written([]))
    assert (await read(Read("a.json"), ctx)).text == f"     1\t{written([]).decode()}"

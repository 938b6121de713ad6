"""A search looks into the folder that was judged, whatever its name leads to by then."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from engine.core.errors import ToolError
from engine.tools.builtin.glob import GLOB
from engine.tools.builtin.grep import GREP
from engine.tools.builtin.list import LIST
from engine.tools.search.search_arguments import Glob, Grep, List
from engine.tools.tool import Tool
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_in, output_of


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (LIST, List(path="src")),
        (GLOB, Glob(pattern="*", path="src")),
        (GREP, Grep(pattern="secret", path="src")),
        (GREP, Grep(pattern="secret", glob="src/*")),
    ],
)
async def test_a_folder_that_became_another_is_not_searched(
    ctx: ToolContext, tmp_path: Path, tool: Tool, arguments: object
) -> None:
    other = tmp_path / "other"
    for folder, content in ((tmp_path / "src", "mine"), (other, "secret")):
        folder.mkdir()
        (folder / "a.txt").write_text(content)
    judged = attrs.evolve(ctx, approved_paths=frozenset((await need_in(ctx, tool, arguments)).paths))
    await output_of(tool, arguments, judged)
    (tmp_path / "src").rename(tmp_path / "gone")
    (tmp_path / "src").symlink_to(other)
    with pytest.raises(ToolError, match="leads to another place"):
        await output_of(tool, arguments, judged)

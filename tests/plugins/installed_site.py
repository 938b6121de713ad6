"""A folder of installed packages with entry points, on the path of this process."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

import attrs

GREET = """
import attrs
import engine
from engine.plugins import Plugin, PluginContext

@attrs.frozen
class Hello:
    '''Greet someone.'''
    name: str

@engine.tool(read_only=True)
async def hello(args: Hello, ctx: engine.ToolContext) -> str:
    return f"Hello, {args.name}!"

def make(context: PluginContext) -> Plugin:
    return Plugin(tools=(hello,))
"""


@attrs.frozen
class Site:
    """Packages, as an installer leaves them."""

    folder: Path

    def install(self, name: str, code: str = GREET, *, target: str = "make", module: str = "", dist: str = "") -> None:
        """Install a package with one module and one entry point."""
        module = module or f"plugin_{name.replace('-', '_')}"
        dist = dist or module
        (self.folder / f"{module}.py").write_text(textwrap.dedent(code))
        metadata = self.folder / f"{dist}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[engine.plugins]\n{name} = {module}:{target}\n")
        invalidate_caches()


@contextmanager
def installed_site(folder: Path) -> Generator[Site]:
    """Yield the site; at the end, nothing of it is left in this process."""
    folder.mkdir()
    sys.path.insert(0, str(folder))
    try:
        yield Site(folder)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.startswith("plugin_")]:
            del sys.modules[name]
        invalidate_caches()

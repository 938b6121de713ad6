"""Tool files of a user and of a project, and an engine with them whose model follows a script."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import attrs

import engine
from engine.config.plugin_config import PluginOptions
from engine.core.events import CallSettled, Notice, PermissionAsked
from engine.options import PermissionOptions, Ports
from engine.permission.grants.state_file import StateFile
from engine.plugins.guarded_call import SECONDS
from engine.plugins.plugin_packages import LoadedPackage
from engine.plugins.plugin_tools import PluginTools
from engine.plugins.tool_files import FileApprovals, ToolFolders
from engine.session.engine import Engine
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool import Tool

DONE: Answer = [*text("Done."), *done()]
FILE = """
import attrs, engine

@attrs.frozen
class Hello:
    '''Greet someone.'''
    name: str

@engine.tool{options}
async def hello(args: Hello, ctx: engine.ToolContext) -> str:
    {body}
    return f"{word}, {{args.name}}!"
"""


def code(word: str = "Hello", body: str = "pass", options: str = "") -> str:
    """Return the text of a tool file."""
    return FILE.format(word=word, body=body, options=options)


def calls(tool: str, **arguments: object) -> Answer:
    return [*call(tool, arguments, id="1"), *done("calls")]


@attrs.define
class World:
    """The folders of a user.

    Attributes:
        folder: all of them are in it.
        trusted: whether the project is trusted.
    """

    folder: Path
    trusted: bool = True

    def __attrs_post_init__(self) -> None:
        (self.project / ".git").mkdir(parents=True)
        self.user.mkdir()

    @property
    def project(self) -> Path:
        return Path(os.path.realpath(self.folder)) / "project"

    @property
    def user(self) -> Path:
        return Path(os.path.realpath(self.folder)) / "tools"

    @property
    def approvals(self) -> FileApprovals:
        return FileApprovals(StateFile(self.folder / "approved.json", "approved"))

    def own(self, name: str, text: str) -> Path:
        path = self.user / name
        path.write_text(text)
        return path

    def of_project(self, name: str, text: str, *, approved: bool = True) -> Path:
        path = self.project / ".engine/tools" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if approved:
            self.approvals.approve(str(path), text.encode())
        return path

    def folders(self, **options: object) -> ToolFolders:
        return ToolFolders(
            user=(str(self.user),),
            home=str(self.folder / "home"),
            approvals=self.approvals,
            is_trusted=lambda _: self.trusted,
            **options,  # type: ignore[arg-type]  # a test names only what there is
        )

    def source(
        self, options: PluginOptions | None = None, packages: Sequence[LoadedPackage] = (), seconds: float = SECONDS
    ) -> PluginTools:
        return PluginTools(
            self.folders(), state=self.folder / "state", options=options, packages=packages, seconds=seconds
        )

    def opened(
        self,
        model: ScriptedProvider,
        source: PluginTools,
        *rules: str,
        tools: Sequence[Tool] = (),
        profile: str = "ask",
    ) -> Engine:
        return engine.open_engine(
            model=model,
            tools=tools,
            ports=Ports(sources=[source]),
            permissions=PermissionOptions(profile=profile, rules=rules),
        )

    async def session(self, eng: Engine) -> engine.Session:
        return await eng.create_session(cwd=self.project)


async def run(
    session: engine.Session, prompt: str = "go", *, allow: bool = True
) -> tuple[list[str], list[str], list[str]]:
    """Run a turn; return its results, questions and notices of plugins."""
    results: list[str] = []
    asked: list[str] = []
    notices: list[str] = []
    async with session.prompt(prompt) as turn:
        async for event in turn:
            if isinstance(event, PermissionAsked):
                asked.append(event.detail)
                await turn.reply(event.request_id, engine.Once() if allow else engine.Reject("no"))
            elif isinstance(event, CallSettled):
                results.append(event.settlement.text)
            elif isinstance(event, Notice) and event.code == "tool_source":
                notices.append(event.text)
    return results, asked, notices

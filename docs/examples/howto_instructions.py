"""How to give instructions: prompt layers, a project's own files, and the update that the model gets when they change."""

import tempfile
from pathlib import Path
from typing import Annotated

import attrs
import trio

import engine
from engine.config import Instructions
from engine.events import PromptSet, PromptUpdated
from engine.options import ContextOptions, PermissionOptions
from engine.prompt import PromptLayers
from engine.testing import Answer, ScriptedProvider, call, done, text
from engine.tools import Need, skill_tool


@attrs.frozen
class Edit:
    """Put a text into a file."""

    path: Annotated[str, engine.doc("which file")]
    content: Annotated[str, engine.doc("what it will hold")]


def need(args: Edit) -> Need:
    return Need(permission="edit", patterns=(args.path,), paths=(args.path,))


@engine.tool(need=need)
async def edit(args: Edit, ctx: engine.ToolContext) -> str:
    await trio.Path(args.path).write_text(args.content)
    return "Done."


def project_in(folder: Path) -> Path:
    project = folder.resolve() / "shop"
    for name, content in {
        "AGENTS.md": "Run `make check` before you end.\n",
        "web/AGENTS.md": "Here it is TypeScript, in strict mode.\n",
        ".agents/skills/release/SKILL.md": "---\nname: release\ndescription: How to make a release.\n---\nTag it.\n",
    }.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return project


# -- layers ----------------------------------------------------------------------------------------


def layers_of(project: Path) -> PromptLayers:
    return PromptLayers(
        instructions=Instructions(max_bytes=16_384),
        sources={"house": lambda _: "The house style is plain words."},
        is_trusted=lambda folder: folder == str(project),
        home=str(project.parent),
    )


def script_for(project: Path) -> list[Answer]:
    return [
        [*call("edit", {"path": f"{project}/web/a.ts", "content": "let a = 1"}, id="1"), *done("calls")],
        [*call("edit", {"path": f"{project}/AGENTS.md", "content": "Run `make`."}, id="2"), *done("calls")],
        [*text("Done."), *done()],
    ]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = await trio.to_thread.run_sync(project_in, Path(folder))
        layers = layers_of(project)
        model = ScriptedProvider(script_for(project))
        async with engine.open_engine(
            model=model,
            tools=[edit, skill_tool(layers.skills_at)],
            settings=engine.Settings(system="You work for the shop."),
            permissions=PermissionOptions(profile="full"),
            context=ContextOptions(prompt=layers),
        ) as eng:
            session = await eng.create_session(cwd=project)
            async with session.prompt("Go.") as turn:
                async for event in turn:
                    show(event, project)
        print("requests begin alike:", len({request.system for request in model.requests}) == 1)


# -- updates of the prompt ----------------------------------------------------------------------------------


def show(event: object, project: Path) -> None:
    match event:
        case PromptSet():
            print("set:", [section.name.replace(f"{project}/", "") for section in event.sections])
        case PromptUpdated():
            print("updated:", [section.source.replace(f"{project}/", "") for section in event.sections])
        case _:
            pass


if __name__ == "__main__":
    trio.run(main)

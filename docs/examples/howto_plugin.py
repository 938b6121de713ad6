"""A plugin as a package: the module `engine_shop`, and the function that its entry point names."""

from pathlib import Path
from typing import Annotated

import attrs

import engine
from engine.hooks import Hooks, ToolDecision, ToolUse
from engine.plugins import Plugin, PluginContext


@attrs.frozen
class Stock:
    """Return how many pieces of an article are in stock."""

    article: Annotated[str, engine.doc("the article's number")]


async def no_force(use: ToolUse) -> ToolDecision:
    is_forced = "push --force" in use.arguments
    return ToolDecision(verdict="deny", reason="Pushing with force is not our way.") if is_forced else ToolDecision()


def make(context: PluginContext) -> Plugin:
    pieces = int(str(context.settings.get("pieces", 17)))
    seen = context.folder / "seen"

    @engine.tool(timeout=10)
    async def stock(args: Stock, ctx: engine.ToolContext) -> str:
        await ctx.to_thread(seen.write_text, args.article)
        return f"{args.article}: {pieces} pieces"

    texts = Path(__file__).parent / "skills"
    return Plugin(tools=(stock,), hooks=Hooks(before_tool=(no_force,)), skills=(texts,) if texts.is_dir() else ())

"""Chapter 9: prove that your own tool may be cancelled at any instant."""

from typing import Annotated

import attrs
import trio

import engine
from engine.testing import PromiseBroken, cancel_everywhere, tool_scenario


@attrs.frozen
class RunTests:
    """Run one suite of the project's tests and return its summary."""

    suite: Annotated[str, engine.doc("unit or browser")]


@engine.tool(read_only=True)
async def run_tests(args: RunTests, ctx: engine.ToolContext) -> str:
    try:
        await trio.sleep(0.1)
        return f"{args.suite}: 12 passed"
    finally:
        # Clean-up that has to wait for something is shielded, and has a deadline.
        with trio.move_on_after(0.2, shield=True):
            await trio.sleep(0.05)


@engine.tool(read_only=True)
async def run_tests_stubbornly(args: RunTests, ctx: engine.ToolContext) -> str:
    with trio.CancelScope(shield=True):
        await trio.sleep(0.5)
    return f"{args.suite}: 12 passed"


def test_cancel_at_any_instant() -> None:
    cancel_everywhere(tool_scenario(run_tests, {"suite": "unit"}), every=5)


def test_stubborn_tool_is_reported() -> None:
    try:
        cancel_everywhere(tool_scenario(run_tests_stubbornly, {"suite": "unit"}), every=5)
    except PromiseBroken as broken:
        print(broken)


if __name__ == "__main__":
    test_cancel_at_any_instant()
    test_stubborn_tool_is_reported()

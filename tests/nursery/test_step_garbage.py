"""What a step leaves to the garbage collector: nothing. With a thousand sessions, its passes are what takes long."""

import gc

import attrs

import engine
from engine.testing import ScriptedProvider, call, done, text


@attrs.frozen
class Number:
    n: int


async def collected_in_a_turn(steps: int) -> int:
    """Run a turn of so many steps; return how many objects only the collector frees while the session is there."""

    @engine.tool(read_only=True)
    async def echo(args: Number, ctx: engine.ToolContext) -> str:
        """Return the number."""
        return str(args.n)

    script = [[*call("echo", {"n": n}, id=f"c{n}"), *done("calls")] for n in range(steps)]
    async with engine.open_engine(model=ScriptedProvider([*script, [*text("Bye."), *done()]]), tools=[echo]) as eng:
        session = await eng.create_session()
        gc.collect()
        gc.disable()
        try:
            await session.run("go")
            return gc.collect()
        finally:
            gc.enable()


async def test_steps_leave_no_cycles() -> None:
    await collected_in_a_turn(2)  # what is made once, such as the hooks of cattrs
    few, many = await collected_in_a_turn(4), await collected_in_a_turn(40)
    # Two of each step belong to the turn, which looks for repetitions in them, and go with it.
    assert (many - few) / 36 < 4

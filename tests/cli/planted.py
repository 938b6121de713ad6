"""`engine` as no flag makes it: `python -m tests.cli.planted NAME ARGUMENTS`, with a fault or a setting of that name."""

import sys
from collections.abc import Sequence
from functools import partial

import attrs

import engine.cli.run
import engine.cli.run_session
from engine.cli import main
from engine.compaction.compaction_policy import Keeper
from engine.core.messages import Message
from engine.core.protocols import ContextView
from engine.session.engine_options import ContextOptions


class BrokenKeeper(Keeper):
    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        raise RuntimeError("a planted fault in a turn")


def fail(*_: object) -> None:
    raise RuntimeError("a planted fault in the command")


def with_token_target() -> None:
    usual = engine.cli.run_session._settings
    setattr(  # noqa: B010 -- as below
        engine.cli.run_session,
        "_settings",
        lambda options, **others: attrs.evolve(usual(options, **others), token_target=1_000_000),
    )


if __name__ == "__main__":
    name = sys.argv.pop(1)
    # What is imported there is not exported.
    if name == "diminishing":
        with_token_target()
    elif name == "internal_error":
        setattr(engine.cli.run_session, "ContextOptions", partial(ContextOptions, keeper=BrokenKeeper()))  # noqa: B010
    else:
        setattr(engine.cli.run, "_tools", fail)  # noqa: B010
    sys.exit(main())

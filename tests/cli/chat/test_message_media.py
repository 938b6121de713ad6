"""What a message names as `@path` goes with it, in this process and to a server: prompts, steers and queued messages."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from engine.cli.chat.chat_client import ChatClient, SendFailure
from engine.cli.chat.local_client import LocalClient
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.outbox import PromptPart
from engine.cli.chat.remote_client import RemoteClient
from engine.config.config import Config
from engine.core.ids import InputId
from engine.core.messages import ImagePart, UserMessage
from engine.testing.script import Pause
from tests.cli.chat.test_attach_files import PNG
from tests.support.client_world import client_world


def images_in(message: UserMessage) -> int:
    return sum(isinstance(part, ImagePart) for part in message.parts)


def prompt(text: str) -> do.SendPrompt:
    return do.SendPrompt(InputId("input_prompt"), (PromptPart(text),))


@pytest.mark.parametrize("is_remote", [False, True])
async def test_image_goes_with_every_kind_of_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_remote: bool
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(client_world(tmp_path, "pair", [Pause(3600)]))
        session = await world.engine.create_session(cwd=tmp_path)
        client: ChatClient = LocalClient(world.engine, session, Config())
        if is_remote:
            remote = await stack.enter_async_context(world.client())
            client = RemoteClient(remote, remote.session(session.id), Config())
        await client.perform(prompt("see @a.png"))
        assert session.state.turn is not None
        await client.perform(do.SendSteer(InputId("input_steer"), session.state.turn.turn_id, "steer @a.png"))
        await client.perform(do.SendQueued(InputId("input_queue"), "queue @a.png"))
        sent = [message for message in session.state.transcript if isinstance(message, UserMessage)]
        assert [images_in(message) for message in sent if message.origin == "user"] == [1]
        waiting = {item.input_id: item.message for item in session.inputs.waiting}
        assert {key: images_in(message) for key, message in waiting.items()} == {"input_steer": 1, "input_queue": 1}
        session.cancel(session.state.turn.turn_id)


async def test_message_that_is_too_large_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(PNG + bytes(32 << 20))
    monkeypatch.chdir(tmp_path)
    async with client_world(tmp_path, "pair") as world, world.client() as remote:
        session = await world.engine.create_session(cwd=tmp_path)
        client = RemoteClient(remote, remote.session(session.id), Config())
        with pytest.raises(SendFailure, match="larger than 32 MB"):
            await client.perform(prompt("see @a.png"))
        assert session.state.turns == 0

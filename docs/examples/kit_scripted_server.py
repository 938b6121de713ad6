"""The test kit: a model's host on the loopback, which speaks a real wire format over real HTTP."""

import trio

from engine.events import MessageId, PartId, TextPart, Transcript, UserMessage
from engine.providers import ModelRequest, TextChunk, resolve
from engine.testing import Answer, ScriptedServer, done, text

SCRIPT: list[Answer] = [[*text("Hello!", pieces=2), *done()]]


async def main() -> None:
    async with trio.open_nursery() as nursery:
        # The bytes are cut anywhere, as a network does.
        server = ScriptedServer(SCRIPT, largest_piece=7, seed=1)
        url = await nursery.start(server.serve)
        model = resolve("anthropic/claude-haiku-4-5", {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url})
        hello = UserMessage(id=MessageId("1"), parts=(TextPart(id=PartId("1"), text="Hi."),))
        stream = await model.open(ModelRequest(model="any", system="Be short.", transcript=Transcript([hello])))
        answer = ""
        while batch := await stream.receive():
            answer += "".join(event.text for event in batch if isinstance(event, TextChunk))
        await stream.aclose()
        await model.aclose()
        await server.wait_closed()
        nursery.cancel_scope.cancel(reason="the example is over")
    print("answer:", answer)
    print("received:", server.requests[0].text, "-", server.requests[0].system)


if __name__ == "__main__":
    trio.run(main)

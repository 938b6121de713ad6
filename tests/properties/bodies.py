"""Request bodies read back: what each wire format says, in one form, and what its API asks of a request.

A body is read as strictly as its host would: a block of a kind that the API does not
have, an empty text, a turn out of order fails here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

Json = dict[str, Any]


@attrs.frozen
class Call:
    """A call as a body has it."""

    id: str
    name: str
    arguments: Json


@attrs.define
class Turn:
    """What one side says until the other does.

    Attributes:
        role: "user", "assistant" or "results".
        texts: what can be read.
        calls: what the model asks for.
        answers: ids of the calls that results are of.
    """

    role: str
    texts: list[str] = attrs.field(factory=list[str])
    calls: list[Call] = attrs.field(factory=list[Call])
    answers: list[str] = attrs.field(factory=list[str])


def turns_of(wire: str, body: Json) -> list[Turn]:
    """Return the turns of a body, having checked each of them by its API's rules."""
    turns: list[Turn] = []
    for turn in READERS[wire](body):
        if turns and turns[-1].role == turn.role and turn.role != "results":
            # Chat hosts take several messages of the model in a row as what they are: one after the other.
            turns[-1].texts += turn.texts
            turns[-1].calls += turn.calls
        elif turns and turns[-1].role == turn.role:
            turns[-1].answers += turn.answers
        else:
            turns.append(turn)
    return turns


def said(text: object) -> str:
    assert isinstance(text, str)
    assert text != ""
    text.encode()  # no half of a character
    return text


def parsed(arguments: object) -> Json:
    assert isinstance(arguments, str)
    value = json.loads(arguments, parse_constant=refuse)
    assert isinstance(value, dict)
    return value


def refuse(literal: str) -> None:
    raise AssertionError(f"{literal} is no JSON")


def one_of(block: Json, *kinds: str) -> str:
    """Return which of *kinds* a block without a type is."""
    (found,) = [kind for kind in kinds if kind in block]
    return found


def is_base64(data: object) -> bool:
    assert isinstance(data, str)
    return base64.b64decode(data, validate=True) != b""


def alternating(messages: Sequence[Json], roles: Sequence[str]) -> None:
    assert [message["role"] for message in messages] == [roles[i % 2] for i in range(len(messages))]


# -- Anthropic ------------------------------------------------------------------------


def read_anthropic(body: Json) -> Iterator[Turn]:
    alternating(body["messages"], ("user", "assistant"))
    for message in body["messages"]:
        blocks = message["content"]
        assert blocks
        is_last = message is body["messages"][-1]
        if message["role"] == "assistant":
            yield assistant_of_anthropic(blocks, is_last=is_last)
            continue
        results = [block for block in blocks if block["type"] == "tool_result"]
        assert blocks[: len(results)] == results  # the API wants them first
        if results:
            yield Turn("results", answers=[answer_of_anthropic(block) for block in results])
        if rest := blocks[len(results) :]:
            yield Turn("user", texts=[shown_to_anthropic(block) for block in rest])


def assistant_of_anthropic(blocks: Sequence[Json], *, is_last: bool) -> Turn:
    turn = Turn("assistant")
    for block in blocks:
        match block["type"]:
            case "text":
                turn.texts.append(said(block["text"]))
            case "thinking":
                assert block["signature"]
            case "redacted_thinking":
                assert block["data"]
            case "tool_use":
                assert isinstance(block["input"], dict)
                turn.calls.append(Call(block["id"], block["name"], block["input"]))
            case _:
                pass
    assert blocks[-1]["type"] not in {"thinking", "redacted_thinking"}
    uses = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    found = {block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")}
    assert found <= uses
    assert is_last or uses <= found
    return turn


def answer_of_anthropic(block: Json) -> str:
    content = block["content"]
    for each in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        shown_to_anthropic(each)
    assert content
    return str(block["tool_use_id"])


def shown_to_anthropic(block: Json) -> str:
    match block["type"]:
        case "text":
            assert block["text"].strip()
            return said(block["text"])
        case "image" | "document":
            assert is_base64(block["source"]["data"])
            return str(block["source"]["media_type"])
        case kind:
            raise AssertionError(f"a user can't send a {kind}")


# -- OpenAI Chat Completions -------------------------------------------------------------


def read_openai_chat(body: Json) -> Iterator[Turn]:
    messages = body["messages"]
    for place, message in enumerate(messages):
        match message["role"]:
            case "system" | "developer":
                assert place == 0
                assert content_of_chat(message["content"])
            case "user":
                yield Turn("user", texts=content_of_chat(message["content"]))
            case "assistant":
                yield assistant_of_chat(message)
            case "tool":
                assert content_of_chat(message["content"])
                yield Turn("results", answers=[message["tool_call_id"]])
            case role:
                raise AssertionError(f"there is no role {role}")


def assistant_of_chat(message: Json) -> Turn:
    content = message.get("content")
    calls = message.get("tool_calls")
    thinks = any(message.get(name) for name in ("reasoning_content", "reasoning", "reasoning_details"))
    assert content or calls or thinks
    turn = Turn("assistant", texts=content_of_chat(content) if content else [])
    assert calls is None or calls
    for call in calls or []:
        assert call["type"] == "function"
        turn.calls.append(Call(call["id"], call["function"]["name"], parsed(call["function"]["arguments"])))
    return turn


def content_of_chat(content: object) -> list[str]:
    if isinstance(content, str):
        return [said(content)]
    assert isinstance(content, list)
    assert content
    return [part_of_chat(part) for part in content]


def part_of_chat(part: Json) -> str:
    match part["type"]:
        case "text":
            return said(part["text"])
        case "thinking" | "reasoning":
            return ""
        case "image_url":
            url = part["image_url"]
            return said(url if isinstance(url, str) else url["url"])
        case "file" | "input_audio" | "document_url" | "video_url" | "pdf_url":
            assert part[part["type"]]
            return str(part["type"])
        case kind:
            raise AssertionError(f"there is no part {kind}")


# -- OpenAI Responses ----------------------------------------------------------------------


def read_openai_responses(body: Json) -> Iterator[Turn]:
    items = body["input"]
    for place, item in enumerate(items):
        match item.get("type", "message"):
            case "message":
                if item["role"] in {"system", "developer"}:
                    assert place == 0
                    continue
                assert item["content"]
                assert item["role"] in {"user", "assistant"}
                yield Turn(item["role"], texts=[part_of_responses(part) for part in parts_of(item["content"])])
            case "function_call":
                call = Call(item["call_id"], item["name"], parsed(item["arguments"]))
                yield Turn("assistant", calls=[call])
            case "function_call_output":
                assert item["output"]
                assert [part_of_responses(part) for part in parts_of(item["output"])]
                yield Turn("results", answers=[item["call_id"]])
            case "reasoning":
                assert place + 1 < len(items)
                assert items[place + 1].get("role") != "user"  # a thought is of what follows it
                yield Turn("assistant")
            case _:
                yield Turn("assistant")


def parts_of(content: Any) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def part_of_responses(part: Json) -> str:
    match part["type"]:
        case "input_text" | "output_text":
            return said(part["text"])
        case "input_image":
            return said(part["image_url"])
        case "input_file":
            assert part["filename"]
            return said(part["file_data"])
        case "refusal":
            return said(part["refusal"])
        case kind:
            raise AssertionError(f"there is no part {kind}")


# -- Gemini ----------------------------------------------------------------------------------


def read_gemini(body: Json) -> Iterator[Turn]:
    alternating(body["contents"], ("user", "model"))
    numbers: dict[str, int] = {}

    def id_of(part: Json, role: str) -> str:
        """Return the id, or else the name and which of its calls, or results, it is."""
        if "id" in part:
            return str(part["id"])
        key = f"{role} {part['name']}"
        numbers[key] = numbers.get(key, 0) + 1
        return f"{part['name']} {numbers[key]}"

    for content in body["contents"]:
        assert content["parts"]
        turn = Turn("assistant" if content["role"] == "model" else "user")
        results = Turn("results")
        for part in content["parts"]:
            match one_of(part, "text", "inlineData", "functionCall", "functionResponse", *_HOSTED):
                case "text":
                    # A signature may stand on an empty text.
                    turn.texts.append(part["text"] if "thoughtSignature" in part else said(part["text"]))
                case "inlineData":
                    assert is_base64(part["inlineData"]["data"])
                    turn.texts.append(part["inlineData"]["mimeType"])
                case "functionCall":
                    call = part["functionCall"]
                    assert isinstance(call["args"], dict)
                    turn.calls.append(Call(id_of(call, "call"), call["name"], call["args"]))
                case "functionResponse":
                    assert not turn.texts
                    assert part["functionResponse"]["response"]
                    results.answers.append(id_of(part["functionResponse"], "result"))
                case _:
                    pass
        assert not (turn.role == "user" and turn.calls)
        assert not (turn.role == "assistant" and results.answers)
        if results.answers:
            yield results
        if not results.answers or turn.texts:
            yield turn


_HOSTED = ("executableCode", "codeExecutionResult", "fileData", "toolCall", "toolResponse")


# -- Bedrock Converse ----------------------------------------------------------------------------


def read_bedrock(body: Json) -> Iterator[Turn]:
    alternating(body["messages"], ("user", "assistant"))
    names: list[str] = []
    for message in body["messages"]:
        assert message["content"]
        assert one_of(message["content"][0], *_CONVERSE) != "cachePoint"
        turn, results = Turn(message["role"]), Turn("results")
        for block in message["content"]:
            match kind := one_of(block, *_CONVERSE):
                case "text":
                    turn.texts.append(said(block["text"]))
                    assert block["text"].strip() or message["role"] == "assistant"
                case "toolUse" | "toolResult" if is_hosted_by_bedrock(block, message["content"]):
                    assert message["role"] == "assistant"
                case "toolUse":
                    use = block["toolUse"]
                    assert isinstance(use["input"], dict)
                    turn.calls.append(Call(use["toolUseId"], use["name"], use["input"]))
                case "toolResult":
                    assert not turn.texts
                    assert block["toolResult"]["content"]
                    for each in block["toolResult"]["content"]:
                        assert one_of(each, "text", "image", "document", "video", "json") != "text" or said(
                            each["text"]
                        )
                    results.answers.append(block["toolResult"]["toolUseId"])
                case "reasoningContent":
                    assert message["role"] == "assistant"
                case "cachePoint":
                    pass
                case _:
                    assert is_base64(block[kind]["source"]["bytes"])
                    names += [block[kind]["name"]] if kind == "document" else []
                    turn.texts.append(kind)
        if results.answers:
            yield results
        if not results.answers or turn.texts:
            yield turn
    assert len(names) == len(set(names))


def is_hosted_by_bedrock(block: Json, content: Sequence[Json]) -> bool:
    """Whether it is the work of a tool of the host's own: a call, or a result, each with the other beside it."""
    hosted = {each["toolUse"]["toolUseId"] for each in content if each.get("toolUse", {}).get("type")}
    found = {each["toolResult"]["toolUseId"] for each in content if "toolResult" in each}
    return str((block.get("toolUse") or block["toolResult"])["toolUseId"]) in hosted & found


_CONVERSE = ("text", "image", "document", "video", "toolUse", "toolResult", "reasoningContent", "cachePoint")


# -- Cohere -------------------------------------------------------------------------------------------


def read_cohere(body: Json) -> Iterator[Turn]:
    for place, message in enumerate(body["messages"]):
        match message["role"]:
            case "system":
                assert place == 0
                assert content_of_chat(message["content"])
            case "user":
                yield Turn("user", texts=content_of_chat(message["content"]))
            case "assistant":
                yield assistant_of_cohere(message)
            case "tool":
                assert message["content"]
                yield Turn("results", answers=[message["tool_call_id"]])
            case role:
                raise AssertionError(f"there is no role {role}")


def assistant_of_cohere(message: Json) -> Turn:
    turn = assistant_of_chat(message | ({"content": message.get("tool_plan")} if message.get("tool_calls") else {}))
    assert "tool_plan" not in message or message["tool_calls"]
    return turn


READERS: dict[str, Callable[[Json], Iterator[Turn]]] = {
    "anthropic": read_anthropic,
    "vertex_anthropic": read_anthropic,
    "openai_chat": read_openai_chat,
    "openai_responses": read_openai_responses,
    "gemini": read_gemini,
    "bedrock": read_bedrock,
    "cohere": read_cohere,
}
# Where a body has its messages, and how it marks what to cache.
MESSAGES = {
    "anthropic": "messages",
    "vertex_anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "bedrock": "messages",
    "cohere": "messages",
}
MARKS = (b'"cache_control":', b'"cachePoint":')


def messages_of(wire: str, body: bytes) -> bytes:
    """Return the bytes of a body up to the end of its last message, as far as more can still be added to that."""
    key = b'"%b":[' % MESSAGES[wire].encode()
    start = body.index(key) + len(key) - 1
    text = body[start:].decode()
    _, end = json.JSONDecoder().raw_decode(text)
    return body[: start + len(text[:end].encode())].rstrip(b"]}")

"""Figure `context`: what of long conversations reaches the next request, and what deciding about it costs.

Conversations are generated, with facts planted at known places: what the user asked
first and said last, rules, open todos, files being changed, decisions, error texts,
names of functions that were only read. They go through the real compaction, time and
again, each time with more talk behind: with a scripted summariser that keeps each
fact it is shown with a known chance, and with the extractive stand-in alone.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence

import attrs
import trio

from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.compaction.compaction_policy import Keeper
from engine.compaction.split import split_history, tail_budget
from engine.compaction.summary_prompt import SECTIONS
from engine.compaction.token_estimate import message_tokens, text_tokens
from engine.core.compaction_types import Compaction, CompactionRequest, ModelReply
from engine.core.events import SharedContext
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelInfo
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    Usage,
    UserMessage,
)
from engine.core.protocols import ContextView
from engine.providers.wire.untrusted_json import to_bytes

CONVERSATIONS = 30
TIMES = (1, 3, 10)
LONG = 10_000
LIMIT = 0.020
ROUNDS = 7
INFO = ModelInfo(name="scripted/model", context=64_000, output=8_000)
READ_ONLY = frozenset({"read", "grep", "todo_write"})
# What a summary must not be needed for.
PINNED = ("original request", "latest message", "rule", "open todo", "changed file")
KINDS = (*PINNED, "decision", "error", "detail")
# In whose window a conversation is held: a third of them in each.
WINDOWS = (INFO, attrs.evolve(INFO, context=32_000, output=4_000), attrs.evolve(INFO, context=128_000, output=16_000))
# The chance that the scripted summariser keeps a fact that it is shown.
QUALITY = {"decision": 0.95, "error": 0.9, "detail": 0.7}

_WORDS = [
    "the",
    "parser",
    "reads",
    "each",
    "token",
    "and",
    "keeps",
    "its",
    "place",
    "so",
    "that",
    "errors",
    "can",
    "be",
    "told",
    "with",
    "a",
    "line",
    "and",
    "a",
    "column",
]


# How people put a rule, a model a decision, and programs an error; `{}` is the fact.
_RULES = (
    "You must {} it.",
    "Don\u2019t touch {}.",
    "No {} in new code.",
    "Use {} for that.",
    "Leave {} as it is.",
    "Every file needs {}.",
    "Please never call {} in tests.",
    "Tabs, not {}.",
    "\n\nRequirements:\n- {} on all platforms\n",
    "Bitte {} nicht ändern.",
    "Ne touche pas à {}.",
    "No toques {}.",
    "Не трогай {}.",  # noqa: RUF001 -- it is Russian
    "不要修改 {}。",
)
_DECISIONS = (
    "We decided to use {} because {noise}.",
    "I'll go with {} instead of the old way: {noise}.",
    "Chose {} here, since {noise}.",
    "The plan is to keep {} and {noise}.",
    "{} it is, then: {noise}.",
    "Wir nehmen {}, denn {noise}.",
)
_ERRORS = (
    "TypeError: {} is not callable",
    "main.c:12:5: error: '{}' undeclared (first use in this function)",
    "FAILED tests/test_parser.py::test_{} - assert 1 == 2",
    "npm ERR! code {}",
    "panic: runtime error: {} out of range",
    "bash: {}: command not found",
    "E   AssertionError: {}",
    "fatal: pathspec '{}' did not match any files",
    "Segmentation fault (core dumped) in {}",
    "warning: {} is deprecated",
)


@attrs.frozen
class Fact:
    """Something that was said at a known place; `text` is found nowhere else."""

    kind: str
    text: str


@attrs.define(eq=False)
class Conversation:
    """A conversation that grows, and the facts in it."""

    seed: int
    messages: list[Message] = attrs.field(factory=list[Message])
    facts: list[Fact] = attrs.field(factory=list[Fact])
    shared: SharedContext = SharedContext(cwd="/project")
    _random: random.Random = attrs.field(init=False)
    _count: int = attrs.field(default=0, init=False)

    @property
    def info(self) -> ModelInfo:
        """Whose window it is held in."""
        return WINDOWS[self.seed % len(WINDOWS)]

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)  # it has to be the same each time

    def fill(self, share: float) -> None:
        """Add talk and work that take about such a share of the window."""
        self.grow(round(share * self.info.context))

    def grow(self, tokens: int) -> None:
        """Add about so many tokens of talk and work."""
        have = 0
        while have < tokens:
            before = len(self.messages)
            self._turn()
            have += sum(message_tokens(message, INFO.name) for message in self.messages[before:])

    def _turn(self) -> None:
        request = f"{self._noise(12)} {self._plant('request')}."
        if self._random.random() < 0.6:
            request += f" {self._random.choice(_RULES).format(self._plant('rule'))}"
        self._say(request)
        for _ in range(self._random.randint(2, 5)):
            self._step()
        self._count += 1
        decided = self._random.choice(_DECISIONS).format(self._plant("decision"), noise=self._noise(6))
        part = TextPart(id=PartId(self._id()), text=f"{self._noise(40)}. {decided} {self._noise(20)}.")
        self.messages.append(AssistantMessage(id=MessageId(self._id()), parts=(part,), model=INFO.name))
        if not self.shared.get("todos"):
            # Once, and long ago later on: else it is in the newest messages all the same.
            self._note_todos()

    def _say(self, text: str) -> None:
        part = TextPart(id=PartId(self._id()), text=text)
        self.messages.append(UserMessage(id=MessageId(self._id()), parts=(part,)))

    def _step(self) -> None:
        tool = self._random.choice(["read", "edit", "bash", "grep"])
        path = f"src/part{self._random.randint(0, 999)}/{self._id()}.py"
        output = self._noise(self._random.randint(60, 700))
        if tool == "edit":
            path = f"src/{self._plant('changed file')}.py"
        elif tool == "bash":
            told = self._random.choice(_ERRORS).format(self._plant("error"))
            output += f"\n{told}\n{self._noise(30)}\nmake: stopped\n"
        else:
            output += f"\ndef {self._plant('detail')}(self):"
        call = CallPart(
            id=PartId(self._id()),
            call_id=CallId(self._id()),
            tool=tool,
            arguments=json.dumps({"path": path} if tool != "bash" else {"command": f"make {self._id()}"}),
        )
        self._call(call, Settlement(status="completed", text=output, failed=tool == "bash"))

    def _call(self, call: CallPart, settled: Settlement) -> None:
        self.messages.append(AssistantMessage(id=MessageId(self._id()), parts=(call,), model=INFO.name))
        result = CallResult(call_id=call.call_id, tool=call.tool, settlement=settled)
        self.messages.append(ResultsMessage(id=MessageId(self._id()), results=(result,)))

    def _note_todos(self) -> None:
        todos = [
            {"id": str(n), "content": f"{self._noise(3)} todo{self.seed}x{n}", "status": "pending"} for n in range(1, 6)
        ]
        told = json.dumps({"last": 5, "todos": todos})
        self.shared = self.shared.with_value("todos", told)
        call = CallPart(id=PartId(self._id()), call_id=CallId(self._id()), tool="todo_write", arguments=told)
        self._call(call, Settlement(status="completed", text=told))

    def expected(self) -> Iterator[Fact]:
        """Yield the facts that should be in the next request."""
        said = [fact for fact in self.facts if fact.kind == "request"]
        yield Fact("original request", said[0].text)
        yield Fact("latest message", said[-1].text)
        yield from (Fact("open todo", f"todo{self.seed}x{n}") for n in range(1, 6))
        yield from (fact for fact in self.facts if fact.kind in KINDS)

    def _plant(self, kind: str) -> str:
        text = f"{kind.replace(' ', '')}{self.seed}n{len(self.facts)}q"
        self.facts.append(Fact(kind, text))
        return text

    def _noise(self, count: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=count))

    def _id(self) -> str:
        self._count += 1
        return f"i{self.seed}c{self._count}"


@attrs.define(eq=False)
class Scripted:
    """A summariser of known quality: it keeps each fact that it is shown, or loses it for good, by chance."""

    facts: Sequence[Fact]
    seed: int
    info: ModelInfo = INFO
    asked: int = 0
    _ids: int = 0

    def new_id(self, kind: str) -> str:
        """Return the next identifier."""
        self._ids += 1
        return f"{kind}{self.seed}_{self._ids}"

    async def ask(self, system: str, text: str, *, max_output: int) -> ModelReply:
        """Return a summary. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        self.asked += 1
        chance = random.Random(f"{self.seed} {self.asked}")  # it has to be the same each time
        shown = [fact for fact in self.facts if fact.kind in QUALITY and fact.text in text]
        kept = [fact.text for fact in shown if chance.random() < QUALITY[fact.kind]]
        bodies = dict.fromkeys(SECTIONS, "- none") | {"Objective": "- go on", "Facts": " ".join(kept) or "- none"}
        return ModelReply(text="\n\n".join(f"## {name}\n{body}" for name, body in bodies.items()), finish="stop")


@attrs.frozen
class Refusing:
    """A summariser whose answers will not do: the stand-in is used."""

    info: ModelInfo = INFO

    def new_id(self, kind: str) -> str:
        """Return an identifier that nobody reads."""
        return kind

    async def ask(self, system: str, text: str, *, max_output: int) -> ModelReply:
        """Return nothing. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return ModelReply(finish="refusal")


@attrs.frozen(kw_only=True)
class Kept:
    """Of each kind of fact: how many there were, how many reach the next request; and the tokens of each record."""

    planted: dict[str, int]
    reached: dict[str, int]
    records: list[int]


def measure() -> list[Row]:
    """Return what is kept, and what deciding costs."""
    rows: list[Row] = []
    for name, is_scripted in (("a scripted summariser", True), ("the extractive stand-in", False)):
        found = trio.run(_all_kept, is_scripted)
        for times, kept in found.items():
            rows += [_kept_row(name, times, kind, kept) for kind in KINDS]
            rows += [_record_row(name, times, kept)] if times else []
    rows += _prefix_rows()
    return rows + _speed_rows()


def _kept_row(name: str, times: int, kind: str, kept: Kept) -> Row:
    share = kept.reached[kind] / max(1, kept.planted[kind])
    is_pinned = kind in PINNED
    return Row(
        name=f"context: {name}, after {times}, {kind}",
        measured=f"{100 * share:.1f} %",
        baseline=f"{kept.planted[kind]:,} planted",
        target="100 %" if is_pinned else "",
        ok=share == 1.0 if is_pinned else None,
    )


def _record_row(name: str, times: int, kept: Kept) -> Row:
    return Row(
        name=f"context: {name}, after {times}, tokens of the record",
        measured=f"{median(kept.records):,.0f}",
        baseline=f"{max(kept.records):,} at most",
    )


async def _all_kept(is_scripted: bool) -> dict[int, Kept]:  # noqa: FBT001
    """Take all conversations through the compactions; return what was kept after 0 and each of `TIMES`."""
    sums = {
        times: Kept(planted=dict.fromkeys(KINDS, 0), reached=dict.fromkeys(KINDS, 0), records=[])
        for times in (0, *TIMES)
    }
    for seed in range(CONVERSATIONS):
        conversation = Conversation(seed)
        conversation.fill(0.78)
        info = conversation.info
        summariser = Scripted(conversation.facts, seed, info) if is_scripted else Refusing(info)
        _count(conversation, sums[0])
        for times in range(1, max(TIMES) + 1):
            await _compact(conversation, summariser)
            if times in sums:
                _count(conversation, sums[times])
            conversation.fill(0.62)
    return sums


async def _compact(conversation: Conversation, summariser: Scripted | Refusing) -> Compaction:
    made = await Keeper().compact(_view(conversation), summariser, CompactionRequest(trigger="full"))
    assert isinstance(made, Compaction), made
    conversation.messages = list(made.messages)
    return made


def _count(conversation: Conversation, kept: Kept) -> None:
    text = "\n".join(map(_read, conversation.messages))
    for message in conversation.messages:
        if isinstance(message, UserMessage) and message.origin == "summary":
            # The prose alone: what is pinned stands in parts of its own.
            kept.records.append(sum(text_tokens(part.text) for part in message.parts[:1] if isinstance(part, TextPart)))
    for fact in conversation.expected():
        kept.planted[fact.kind] += 1
        kept.reached[fact.kind] += fact.text in text


def _read(message: Message) -> str:
    """Return what a model reads of a message."""
    match message:
        case UserMessage():
            return message.text
        case AssistantMessage():
            return "\n".join([message.text, *(call.arguments for call in message.calls)])
        case ResultsMessage():
            return "\n".join(result.settlement.text for result in message.results)


def _view(conversation: Conversation) -> ContextView:
    return ContextView(
        transcript=Transcript(conversation.messages),
        model=conversation.info,
        last_usage=Usage(),
        max_output=conversation.info.output,
        shared=conversation.shared,
        read_only=READ_ONLY,
    )


# -- the host's cache --------------------------------------------------------------------


def _prefix_rows() -> list[Row]:
    """Return how much of a request's beginning a compaction, and clearing results, leave as it was."""
    shares: dict[str, list[tuple[int, int]]] = {"a summary": [], "clearing old results": []}
    for seed in range(CONVERSATIONS):
        conversation = Conversation(seed)
        conversation.fill(0.78)
        before = list(conversation.messages)
        keeper = Keeper()
        full = attrs.evolve(conversation.info, context=round(0.78 * conversation.info.context))
        view = attrs.evolve(_view(conversation), model=full)
        pruned = trio.run(keeper.prune, view)
        if pruned is not None:
            shares["clearing old results"].append(_same(before, pruned))
        trio.run(_compact, conversation, Refusing(conversation.info))
        shares["a summary"].append(_same(before, conversation.messages))
    return [
        Row(
            name=f"context: bytes of the prefix that {what} leaves, of messages",
            measured=f"{sum(same for same, _ in found) / max(1, len(found)):,.0f}",
            baseline=f"{sum(whole for _, whole in found) / max(1, len(found)):,.0f} before, {len(found)} times",
        )
        for what, found in shares.items()
    ]


def _same(before: Sequence[Message], after: Sequence[Message]) -> tuple[int, int]:
    """Return how many bytes of the beginning are the same, of how many."""
    old, new = (to_bytes([repr(message) for message in messages]) for messages in (before, after))
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return same, len(old)


# -- what deciding costs --------------------------------------------------------------------


def _speed_rows() -> list[Row]:
    conversation = Conversation(1)
    while len(conversation.messages) < LONG:
        conversation.grow(100_000)
    messages = conversation.messages[:LONG]
    info = attrs.evolve(INFO, context=50_000_000)
    grown = Transcript(messages)
    keeper = Keeper()
    view = attrs.evolve(_view(conversation), transcript=grown, model=info)
    keeper.wants_compaction(view)
    sizes = [message_tokens(message, info.name) for message in messages]
    budget = tail_budget(180_000)

    def warm() -> float:
        began = time.perf_counter()
        keeper.wants_compaction(view)
        split_history(grown[:], sizes, budget, info.name)
        return time.perf_counter() - began

    def cold() -> float:
        began = time.perf_counter()
        fresh = Keeper()
        fresh.wants_compaction(view)
        return time.perf_counter() - began

    def bare() -> float:
        began = time.perf_counter()
        sum(len(repr(message.id)) for message in messages)
        return time.perf_counter() - began

    warmed, chilled, walked = interleaved(ROUNDS, warm, cold, bare)
    taken, first, base = median(warmed), median(chilled), median(walked)
    return [
        Row(
            name=f"context: deciding and selecting over {LONG:,} messages",
            measured=seconds(taken),
            baseline=f"{seconds(base)} to walk over them",
            ratio=taken / base,
            target=f"≤ {seconds(LIMIT)}",
            ok=taken <= LIMIT,
        ),
        Row(
            name=f"context: looking at {LONG:,} messages for the first time",
            measured=seconds(first),
            baseline=f"{seconds(base)} to walk over them",
            ratio=first / base,
        ),
    ]


def workload() -> None:
    """Do what is measured, for the profiler."""
    _speed_rows()


FIGURE = Figure(
    name="context",
    about="what reaches the next request after summaries, and what deciding costs",
    measure=measure,
    workload=workload,
)

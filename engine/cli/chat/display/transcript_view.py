"""Events as finished lines, and what is still open: the unfinished text, and the calls that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from engine.cli.chat.display.styles import Painter, wrap_note
from engine.cli.chat.editor.graphemes import cells
from engine.cli.problems.surroundings import Surroundings
from engine.cli.task.file_blocks import without_file_blocks
from engine.cli.terminal.colours import Palette
from engine.cli.terminal.terminal_text import UNICODE, Symbols, duration, escape_control_chars, one_line
from engine.cli.text.diff_view import diff_lines
from engine.cli.text.markdown_view import MarkdownView
from engine.cli.text.styled_text import PLAIN, Style, clip_line, line_of, paint, wrap_line
from engine.cli.turn.open_step_events import events_so_far
from engine.cli.turn.render import Renderer
from engine.cli.turn.turn_summary import Tally, closing_line
from engine.compaction.shorten import truncate_middle
from engine.core import events as ev
from engine.core.ids import CallId, PartId
from engine.core.messages import AssistantMessage, Message, ReasoningPart, TextPart, UserMessage
from engine.journal.state import Resync, SessionState
from engine.tools.tool_text import main_argument

MAX_RUNNING_ROWS: Final = 5
# What continues a session after a turn that failed.
AGAIN: Final = "send a message to continue"
# Of a message that the user has sent, so many lines of its beginning and its end are shown, and characters of a line.
_PROMPT_HEAD: Final = 20
_PROMPT_TAIL: Final = 10
_MAX_PROMPT_CHARS: Final = 2_000
_LABEL: Final = "Engine: "
_PASTED: Final = ("Next: ", "or: ")
_MIN_REASONING_SECONDS: Final = 1.0

_CALL_EVENTS: Final = (ev.CallAnnounced, ev.CallStarted, ev.CallProgress, ev.CallHeartbeat, ev.CallSettled)


@attrs.define
class RunningCall:
    """A call whose body runs."""

    tool: str
    arguments: str
    depth: int
    started: float | None = None
    is_running: bool = False
    last_output: str = ""


@attrs.define(eq=False)
class TranscriptView:
    """What is shown of a session: lines are returned once, and never change.

    Attributes:
        is_accessible: lines say in words whose they are, and nothing is only shown while it is open.
        has_little_room: the window is so small that choices are among the lines.
        surroundings: what the words about a failure need besides its facts.
    """

    painter: Painter
    symbols: Symbols
    width: int
    is_accessible: bool = False
    surroundings: Surroundings = Surroundings(again=AGAIN)
    has_little_room: bool = attrs.field(default=False, init=False)
    _renderer: Renderer = attrs.field(init=False)
    _text: MarkdownView = attrs.field(init=False)
    _is_labelled: bool = attrs.field(default=False, init=False)
    _text_part: PartId | None = attrs.field(default=None, init=False)
    _shown_parts: set[PartId] = attrs.field(factory=set[PartId], init=False)
    _calls: dict[CallId, RunningCall] = attrs.field(factory=dict[CallId, RunningCall], init=False)
    _reasoning_since: float | None = attrs.field(default=None, init=False)
    _turn_started: float | None = attrs.field(default=None, init=False)
    _tally: Tally = attrs.field(factory=Tally, init=False)

    def __attrs_post_init__(self) -> None:
        self._renderer = Renderer(
            symbols=self.symbols,
            width=self.width,
            plain=self.is_accessible,
            shows_text=False,
            surroundings=self.surroundings,
        )
        self._text = self._new_text()
        self.use_painter(self.painter)

    def use_painter(self, painter: Painter) -> None:
        """Paint what comes from now on in another way."""
        self.painter = painter
        self._renderer.palette = Palette(painter.is_styled, painter.theme.colours)
        self._renderer.theme = painter.theme.styles

    def diff(self, text: str, most: int | None = None) -> list[str]:
        """Return a unified diff as at most *most* lines."""
        return [self.painter.line(line) for line in diff_lines(text, most)]

    def table(self, rows: Sequence[tuple[str, str]]) -> list[str]:
        """Return names, each with a text, as lines."""
        if self.is_accessible:
            return [f"{name}: {text}" for name, text in rows]
        column = min(self.width // 2, max((len(name) for name, _ in rows), default=0))
        rest = line_of(" " * (column + 4))
        wrapped = (
            wrap_line(line_of(text), self.width, first=line_of(f"  {name:<{column}}  "), rest=rest)
            for name, text in rows
        )
        return [paint(row, PLAIN) for lines in wrapped for row in lines]

    def wrapped(self, lines: Iterable[str]) -> list[str]:
        """Return what a command prints in rows of the window; what is to be pasted stays in one."""
        return [
            row
            for line in lines
            for row in (
                [line]
                if cells(line) <= self.width or line.lstrip().startswith(_PASTED)
                else wrap_note(line, self.width)
            )
        ]

    def resize(self, width: int) -> None:
        """Use another width for what comes from now on."""
        self.width = self._renderer.width = width
        self._text.resize(self._text_width)

    def feed(self, event: ev.Durable | ev.Live) -> list[str]:
        """Return the lines that *event* finishes."""
        self._tally.feed(event)
        is_own = len(event.path) <= 1
        match event:
            case ev.TextDelta() | ev.PartEnded() | ev.PartReplaced() | ev.PartDiscarded() | ev.ReasoningDelta():
                return self._part(event) if is_own else []
            case ev.TurnStarted() if is_own:
                self._turn_started, self._tally = event.time, Tally()
            case ev.TurnEnded() if is_own:
                return [*self._end_text(), *self._turn_end(event)]
            case ev.CallAnnounced() | ev.CallQueued() | ev.CallStarted() | ev.CallProgress() | ev.CallSettled():
                self._call(event)
            case _:
                pass
        return self._other_lines(event)

    def _other_lines(self, event: ev.Durable | ev.Live) -> list[str]:
        """Return the lines about calls and everything else that is no text."""
        lines = self._renderer.feed(event).splitlines()
        if not lines:
            return []
        if self.is_accessible and isinstance(event, _CALL_EVENTS):
            lines = [f"Tool: {line.strip()}" for line in lines]
        return [*self._end_text(), *(row for line in lines for row in wrap_note(line, self.width))]

    def open_rows(self) -> list[str]:
        """Return the rows of the unfinished text."""
        return [self.painter.line(clip_line(row, self.width - 1)) for row in self._text.preview]

    def running_rows(self, now: float | None) -> Iterator[str]:
        """Yield a row for each running call. *now* is in seconds since the epoch, as in events; None: no engine runs them."""
        running = [call for call in self._calls.values() if call.is_running]
        for call in running[:MAX_RUNNING_ROWS]:
            # How long it has run is unknown if it started before this was attached.
            seconds = "" if call.started is None else f"{self.symbols.between}{_how_long(call.started, now)}"
            what = one_line(main_argument(call.arguments), max(20, self.width // 2), self.symbols.cut)
            output = f"{self.symbols.between}{call.last_output}" if call.last_output else ""
            head = f"{'  ' * call.depth}{self.symbols.running} {escape_control_chars(call.tool)} {what}"
            yield f"{head}{seconds}{output}"
        if len(running) > MAX_RUNNING_ROWS:
            yield f"+{len(running) - MAX_RUNNING_ROWS} more"

    @property
    def has_running_calls(self) -> bool:
        """Whether a call's body runs."""
        return any(call.is_running for call in self._calls.values())

    # -- the beginning -------------------------------------------------------------------------

    def show_state(self, resync: Resync) -> list[str]:
        """Return the lines of the open step, and continue from there."""
        self._text, self._text_part = self._new_text(), None
        self._calls.clear()
        lines: list[str] = []
        turn = resync.state.turn
        if turn is not None and turn.step is not None:
            for event in events_so_far(resync.state, turn.step):
                lines += self.feed(event)
            if turn.step.calls:
                # The text before them is over.
                lines += self._end_text()
        for question in resync.open_questions:
            self._renderer.feed(question)
        return lines

    def history(self, state: SessionState, turns: int, most: int | None = None) -> list[str]:
        """Return the last *turns* turns of the transcript; of these, about the last *most* lines."""
        messages: Sequence[Message] = tuple(state.transcript)
        starts = [
            index for index, message in enumerate(messages) if isinstance(message, UserMessage) and _is_users(message)
        ]
        if not starts or not turns:
            return []
        first = starts[-turns] if len(starts) >= turns else starts[0]
        lines = [f"{self.symbols.note} {first} earlier messages are not shown"] if first else []
        for message in messages[first:]:
            lines += self.message_lines(message, most)
        if most is not None and len(lines) > most:
            lines = [f"{self.symbols.note} Earlier lines are not shown: /redraw {turns}", *lines[-most:]]
        return lines

    def message_lines(self, message: Message, most: int | None = None) -> list[str]:
        """Return the lines of a message of the transcript; of a long text, those of its last *most* lines."""
        if isinstance(message, UserMessage):
            return self.prompt_lines(without_file_blocks(message.text)) if _is_users(message) else []
        if not isinstance(message, AssistantMessage):
            return []
        lines: list[str] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                view = self._new_text()
                shown = [self.painter.line(line) for line in (*view.feed(last_lines(part.text, most)), *view.finish())]
                lines += self._labelled(shown)
                self._is_labelled = False
        for call in message.calls:
            what = one_line(main_argument(call.arguments), max(20, self.width // 2), self.symbols.cut)
            lines.append(f"{self.symbols.note} {escape_control_chars(call.tool)} {what}")
        return lines

    def prompt_lines(self, text: str) -> list[str]:
        """Return the lines of a message that the user has sent; of a very long one, its beginning and its end."""
        note = f"[{self.symbols.cut} {{:,}} more %s, sent but not shown {self.symbols.cut}]"
        lines: list[str] = []
        for line in escape_control_chars(text).split("\n"):
            lines += truncate_middle(line, _MAX_PROMPT_CHARS, note % "characters").split("\n")
        left_out = len(lines) - _PROMPT_HEAD - _PROMPT_TAIL
        if left_out > 1:
            lines[_PROMPT_HEAD:-_PROMPT_TAIL] = [(note % "lines").format(left_out)]
        first, *rest = lines
        if self.is_accessible:
            return [f"You: {first}", *rest]
        marked = [f"> {first}", *(f"  {line}" for line in rest)]
        return ["", *(self.painter.text(line, Style.STRONG) for line in marked), ""]

    def command_lines(self, name: str) -> list[str]:
        """Return which command the next lines answer; nothing in lines, where the terminal shows what was typed."""
        return [] if self.is_accessible else [self.painter.text(f"/{name}", Style.DIM)]

    # -- parts -----------------------------------------------------------------------------------

    def _part(
        self, event: ev.TextDelta | ev.PartEnded | ev.PartReplaced | ev.PartDiscarded | ev.ReasoningDelta
    ) -> list[str]:
        match event:
            case ev.ReasoningDelta():
                self._reasoning_since = self._reasoning_since or event.time
                return []
            case ev.TextDelta():
                return self._delta(event)
            case ev.PartEnded():
                if isinstance(event.part, ReasoningPart):
                    return self._end_reasoning(event.time)
                return self._end_text() if isinstance(event.part, TextPart) else []
            case ev.PartReplaced() | ev.PartDiscarded():
                if event.part_id not in self._shown_parts:
                    return []
                self._shown_parts.discard(event.part_id)
                return [*self._end_text(), f"{self.symbols.note} Retrying; ignore the partial answer above."]

    def _delta(self, event: ev.TextDelta) -> list[str]:
        lines = [] if event.part_id == self._text_part else self._end_text()
        self._text_part = event.part_id
        self._shown_parts.add(event.part_id)
        return lines + self._labelled([self.painter.line(line) for line in self._text.feed(event.text)])

    def _labelled(self, lines: list[str]) -> list[str]:
        """Say at the first line of a text whose it is."""
        if not self.is_accessible or self._is_labelled or not lines:
            return lines
        self._is_labelled = True
        return [f"{_LABEL}{lines[0]}", *lines[1:]]

    def _end_text(self) -> list[str]:
        """Finish the open line."""
        lines = self._labelled([self.painter.line(line) for line in self._text.finish()])
        self._text = self._new_text()
        self._is_labelled = False
        return lines

    @property
    def _text_width(self) -> int:
        """The columns of a line of text: a label fits in front of it."""
        return self.width - 1 - (len(_LABEL) if self.is_accessible else 0)

    def _new_text(self) -> MarkdownView:
        return MarkdownView(self._text_width, keeps_marks=not self.painter.is_styled, is_linear=self.is_accessible)

    def _end_reasoning(self, now: float) -> list[str]:
        since, self._reasoning_since = self._reasoning_since, None
        if since is None or now - since < _MIN_REASONING_SECONDS:
            return []
        return [self.painter.text(f"{self.symbols.note} Thought for {duration(now - since)}", Style.DIM)]

    # -- calls and turns ---------------------------------------------------------------------------

    def _call(
        self, event: ev.CallAnnounced | ev.CallQueued | ev.CallStarted | ev.CallProgress | ev.CallSettled
    ) -> None:
        if isinstance(event, ev.CallAnnounced):
            self._calls[event.call_id] = RunningCall(event.tool, "", max(0, len(event.path) - 1))
            return
        call = self._calls.get(event.call_id)
        if call is None:
            return
        match event:
            case ev.CallQueued():
                call.tool, call.arguments = event.tool, event.arguments
            case ev.CallStarted():
                call.started, call.is_running = event.time, True
            case ev.CallProgress():
                lines = (event.message or event.output).strip().splitlines()
                call.last_output = escape_control_chars(lines[-1]).strip() if lines else call.last_output
            case ev.CallSettled():
                del self._calls[event.call_id]

    def _turn_end(self, event: ev.TurnEnded) -> list[str]:
        self._calls.clear()
        self._shown_parts.clear()
        result = event.result
        if result.stop_reason == "aborted":
            line = f"Cancelled: {self._tally.states or 'no tool call was open'}"
        else:
            seconds = None if self._turn_started is None else max(0.0, event.time - self._turn_started)
            line = closing_line(result, self._tally, seconds)
            # Read aloud, or in an encoding that lacks the sign.
            line = line.replace(UNICODE.between, self.symbols.between)
        # Imported here: most turns complete.
        from engine.cli.problems.problem import problem_of_result

        problem = problem_of_result(result, self.surroundings)
        lines = () if problem is None else problem.lines()
        # In words, one label is enough for the lines of one problem.
        notes = [
            each if number and self.is_accessible else f"{self.symbols.note} {each}"
            for number, each in enumerate(lines)
        ]
        rows = [row for each in notes for row in wrap_note(each, self.width)]
        return [*rows, self.painter.text(f"{self.symbols.note} {line}", Style.DIM)]


def last_lines(text: str, most: int | None) -> str:
    """Return the last *most* lines of Markdown; code whose beginning is left out stays code."""
    lines = text.split("\n")
    if most is None or len(lines) <= most:
        return text
    fences = sum(line.lstrip().startswith("```") for line in lines[:-most])
    return "\n".join([*(["```"] if fences % 2 else []), *lines[-most:]])


def _is_users(message: UserMessage) -> bool:
    return message.origin != "engine"


def _how_long(started: float, now: float | None) -> str:
    return "interrupted" if now is None else f"{max(0, int(now - started))} s"

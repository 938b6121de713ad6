"""Lists to choose from, and questions: what is chosen or answered in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from engine.cli.chat.editor.key_decoder import KeyInput, PastedText, TypedText
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_contents import ChatContents
from engine.cli.chat.machine.completion import CompletionRequest, common_start, completion_at, inserted_text
from engine.cli.chat.machine.picker import Chosen, Closed, Picker, PickerItem, PickerRequest
from engine.cli.chat.machine.question_queue import Details, Hint, QuestionOutcome
from engine.cli.questions.question_keys import Typed

# The picker of the history puts its choice into the composer.
HISTORY: Final = "history"
# So does that of the commands.
COMMANDS: Final = "commands"
# That of a completion, in the place of what was typed.
_COMPLETION: Final = "completion"
_LEAVE: Final = "leave"


@attrs.define(eq=False)
class Dialogs:
    """The list and the question that take keys or lines."""

    _chat: ChatContents
    _completed: CompletionRequest | None = attrs.field(default=None, init=False)

    # -- lists -----------------------------------------------------------------------------------

    def open_picker(self, request: PickerRequest) -> list[do.Effect]:
        """Show a list to choose from."""
        self._chat.picker = picker = Picker(request)
        return [do.Print(tuple(picker.numbered_lines()))] if self._chat.is_accessible else []

    def pick(self, outcome: Chosen | Closed | list[str] | None) -> Iterator[do.Effect]:
        """Do what a key or a line has decided in the list."""
        picker = self._chat.picker
        assert picker is not None
        match outcome:
            case Chosen(value=value):
                self._chat.picker = None
                if picker.request.command == HISTORY:
                    self._chat.composer.replace(value)
                elif picker.request.command == COMMANDS:
                    self._chat.composer.replace(f"/{value} ")
                elif picker.request.command == _LEAVE:
                    yield from [do.Leave()] if value == _LEAVE else []
                elif picker.request.command == _COMPLETION:
                    self._complete(inserted_text(picked, value) if (picked := self._completed) else "")
                else:
                    yield do.RunCommand(picker.request.command, value)
            case Closed():
                self._chat.picker = None
            case list():
                yield do.Print(tuple(outcome))
            case None:
                pass

    def leave(self) -> Iterator[do.Effect]:
        """Leave the chat; ask first if that ends background commands."""
        count = self._chat.facts.jobs
        if not count or not self._chat.ends_jobs:
            yield do.Leave()
            return
        yield do.RunCommand("jobs", "")
        what = "A background command runs, and ends" if count == 1 else f"{count} background commands run, and end"
        items = (PickerItem("stay", "Stay"), PickerItem(_LEAVE, "Quit, and end what runs"))
        yield from self.open_picker(PickerRequest(_LEAVE, f"{what} with the chat", items))

    # -- completion ------------------------------------------------------------------------------

    def show_candidates(self, request: CompletionRequest, items: Sequence[PickerItem]) -> list[do.Effect]:
        """Complete what was typed: with the one candidate, with what all of them have in common, or let the user choose."""
        chat = self._chat
        buffer = chat.composer.buffer
        if chat.picker is not None or completion_at(buffer.text, buffer.cursor) != request:
            return []  # it was typed on in the meantime
        self._completed = request
        if not items:
            chat.notice = "Nothing matches"
        elif len(items) == 1:
            self._complete(inserted_text(request, items[0].value))
        elif start := common_start(request, items):
            self._complete(start)
        else:
            return self.open_picker(PickerRequest(_COMPLETION, "Complete", tuple(items)))
        return []

    def _complete(self, text: str) -> None:
        request, buffer = self._completed, self._chat.composer.buffer
        if request is not None:
            end = request.start + len(request.typed) + buffer.text.startswith('"', request.start)
            buffer.splice(request.start, end, text, "complete")

    # -- questions -------------------------------------------------------------------------------

    def answer(self, outcome: QuestionOutcome) -> Iterator[do.Effect]:
        """Do what a key or a line has decided at the question."""
        match outcome:
            case Typed():
                self._chat.composer.type(outcome.text)
            case Hint():
                self._chat.notice = outcome.text
            case Details():
                yield do.Print(outcome.lines)
            case _:
                yield outcome

    def type_answer(self, event: KeyInput) -> Iterator[do.Effect]:
        """Handle a key while an answer is being written in words."""
        questions = self._chat.questions
        line = questions.answer_line
        if isinstance(event, (PastedText, TypedText)):
            line.insert(event.text.replace("\n", " "))
        elif event.name in {"tab", "escape", "ctrl+c"}:
            questions.leave()
        elif event.name == "enter":
            yield from self.answer(questions.enter_answer())
        else:
            self._chat.composer.edit(line, self._chat.keys.actions.get(event.name, ""))

    def reopen(self, effect: do.Answering) -> None:
        """Ask again: the answer was refused."""
        ids = effect.request_ids if isinstance(effect, do.ReplyPermission) else (effect.request_id,)
        for request_id in ids:
            self._chat.questions.reopen(request_id)

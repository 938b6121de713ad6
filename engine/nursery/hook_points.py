"""The points at which a turn, or a session, runs hooks; those of a call are in `tools/pipeline`.

Each docstring says what the hooks may change there. Without hooks nothing is awaited, so a turn without them has no more
checkpoints than it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import attrs
import trio

from engine.core.compaction_types import CompactionRequest
from engine.core.events import Choice, CompactionTrigger, NudgeAdded, PromptBlocked, QuestionAsked, TurnResult
from engine.core.exception_groups import ErrorBoundary, public, reason_of
from engine.core.foreign_calls import ForeignCall
from engine.core.hooks import (
    Compacted,
    Compacting,
    CompactionDecision,
    Context,
    Hooks,
    Idling,
    Notified,
    PromptDecision,
    Prompted,
    Remark,
    RequestDecision,
    Requesting,
    SessionEnding,
    SessionStarting,
    StopDecision,
    StopHook,
    Stopping,
)
from engine.core.ids import CallId, RequestId
from engine.core.llm_types import ModelRequest
from engine.core.messages import UserMessage
from engine.core.protocols import IdSource
from engine.journal.log import Journal
from engine.nursery.inbox import engine_message, nudge
from engine.nursery.loop_state import HookVerdict
from engine.tools.hook_runner import HookRunner

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun
    from engine.tools.tool_context import UserAnswers

T = TypeVar("T")

_NOT_NOW = Choice(label="Not now", description="they are left out, and the rest is used")


async def ask_about_prompts(run: TurnRun) -> str | None:
    """Show the user's messages to the hooks before the model sees them; return why the turn must end, if it must.

    A checkpoint if a hook is one. If cancelled, the messages that were not shown are blocked by the cleanup.
    """
    if not _hooks_see_prompts(run):
        run.state.unseen.clear()
    reason: str | None = None
    while run.state.unseen:
        blocked = await _ask_about_prompt(run, run.state.unseen[0])
        # Only now: what a hook has not let pass is blocked at the end of the turn.
        run.state.unseen.pop(0)
        reason = reason or blocked
    return reason


def _hooks_see_prompts(run: TurnRun) -> bool:
    # The prompt of a sub-agent is written by a model, not by the user.
    return bool(run.inputs.hooks.user_prompt) and not run.inputs.is_child


def block_unseen(run: TurnRun) -> None:
    """Block the messages that no hook has let pass, since the turn ends: the next one must not send them. Not a checkpoint."""
    if _hooks_see_prompts(run):
        for message in run.state.unseen:
            reason = "the turn ended before the hooks had seen it"
            run.journal.append(PromptBlocked(message_id=message.id, source="the engine", reason=reason))
    run.state.unseen.clear()


async def _ask_about_prompt(run: TurnRun, message: UserMessage) -> str | None:
    """Show one message to the hooks, one after the other: the first that blocks decides. A checkpoint if a hook is one."""
    subject = Prompted(session_id=run.session_id, cwd=run.cwd, text=message.text, message=message)
    answers = await run.hook_runner.run_each(
        run.inputs.hooks.user_prompt, subject, PromptDecision(), is_last=lambda decision: decision.verdict == "block"
    )
    for name, decision in answers:
        if decision.verdict == "block":
            # Blocked in the record as well: what a hook has refused must not come back with the next request.
            source = f"the hook {name}"
            run.journal.append(PromptBlocked(message_id=message.id, source=source, reason=decision.reason))
            return decision.reason or f"{source} blocked the prompt"
    contexts = [text for name, decision in answers for text in _contexts(name, decision)]
    # One message for all, and only when no hook has blocked: a blocked prompt must leave nothing behind.
    if contexts:
        nudge(run, *contexts)
    return None


async def ask_about_request(run: TurnRun, request: ModelRequest, step: int, attempt: int) -> str | None:
    """Show a request to the hooks; return why the turn must end, if it must. A checkpoint if a hook is one.

    What they add for the model is in the history before the final request is built.
    """
    subject = Requesting(session_id=run.session_id, cwd=run.cwd, request=request, step=step, attempt=attempt)
    answers = await run.hook_runner.run_each(
        run.inputs.hooks.request, subject, RequestDecision(), is_last=lambda decision: decision.stop
    )
    for name, decision in answers:
        if decision.stop:
            return decision.reason or f"the hook {name} stopped the turn"
    contexts = [text for name, decision in answers for text in _contexts(name, decision)]
    if contexts:
        nudge(run, *contexts)
    return None


async def ask_to_stop(
    run: TurnRun, hooks: Sequence[StopHook], text: str, already_blocked: int
) -> tuple[HookVerdict, str]:
    """Ask the hooks whether the model may stop; the first that objects decides. A checkpoint if a hook is one."""
    subject = Stopping(
        session_id=run.session_id,
        cwd=run.cwd,
        text=text,
        # For a hook that gives up by itself; the loop has a limit of its own.
        already_blocked=already_blocked,
        agent=run.journal.log.state.agent,
    )
    # Without those that have failed or were too slow: they must not keep the turn from its end.
    for _, decision in await run.hook_runner.run_each(
        hooks, subject, StopDecision(), is_last=lambda decision: decision.verdict != "pass"
    ):
        if decision.verdict != "pass":
            return ("blocked" if decision.verdict == "block" else "prevented"), decision.reason or "a hook said so"
    return "passed", ""


async def ask_about_compaction(run: TurnRun, request: CompactionRequest) -> CompactionRequest | None:
    """Ask the hooks whether, and how, the history may be summarised now; None: not. A checkpoint if a hook is one."""
    transcript = run.journal.log.state.transcript
    subject = Compacting(
        session_id=run.session_id,
        cwd=run.cwd,
        trigger=request.trigger,
        messages=len(transcript),
        instructions=request.instructions,
        transcript=transcript,
    )
    for name, decision in await run.hook_runner.run_each(
        run.inputs.hooks.before_compaction,
        subject,
        CompactionDecision(),
        is_last=lambda decision: decision.verdict == "block",
    ):
        if decision.verdict == "block":
            why = f": {decision.reason}" if decision.reason else ""
            run.notice("info", "compaction_blocked", f"the hook {name} blocked a compaction{why}")
            return None
        # Instructions of all hooks count; of prompts and summaries, the first.
        request = attrs.evolve(
            request,
            instructions="\n".join(text for text in (request.instructions, decision.instructions) if text),
            prompt=request.prompt or decision.prompt,
            summary=request.summary or decision.summary,
            continues=request.continues and decision.continues,
        )
    return request


async def run_compaction_hooks(run: TurnRun, trigger: CompactionTrigger) -> None:
    """Show the new history to the hooks; what they add for the model comes after it. A checkpoint if a hook is one."""
    if not run.inputs.hooks.after_compaction:
        return
    # A copy: a hook may keep it, and the transcript goes on.
    messages = run.journal.log.state.transcript[:]
    subject = Compacted(session_id=run.session_id, cwd=run.cwd, trigger=trigger, messages=messages)
    answers = await run.hook_runner.run_each(run.inputs.hooks.after_compaction, subject, Context())
    contexts = [text for name, context in answers for text in _contexts(name, context)]
    if contexts:
        nudge(run, *contexts)


async def while_notifying(
    run: TurnRun,
    kind: Literal["permission", "question", "recovery"],
    text: str,
    request_id: RequestId,
    ask: Callable[[], Awaitable[T]],
) -> T:
    """Ask a person, and run the notification hooks meanwhile; those still at work when it is answered are cancelled.

    Always a checkpoint; if cancelled, so is *ask*.
    """
    if not run.inputs.hooks.notification:
        # Without a nursery: this is the common case, and its exceptions need no unwrapping.
        return await ask()
    subject = Notified(session_id=run.session_id, cwd=run.cwd, kind=kind, text=text, request_id=request_id)
    answers: list[T] = []
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_notify, run, subject, name="notification hooks")
            answers.append(await ask())
            # A desktop notification that is still being sent is of no use any more.
            nursery.cancel_scope.cancel(reason="the question is answered")
    except BaseExceptionGroup as group:
        # The caller counts on one exception, as if it had awaited `ask` itself.
        failure = public(group)
    if failure is not None:
        try:
            # Outside of the handler, so that the group is not its context: it says the same once more.
            raise failure
        finally:
            # Its traceback holds this frame: without this, both would live until the garbage collector runs.
            del failure
    return answers[0]


async def ask_person(
    run: TurnRun, question: str, choices: Sequence[Choice], *, call_id: str = "", several: bool = False
) -> UserAnswers:
    """Ask the user a question, and return the answers. Always a checkpoint; if cancelled, it is withdrawn."""
    event = QuestionAsked(
        request_id=RequestId(run.deps.ids.new("ask")),
        call_id=CallId(call_id),
        question=question,
        choices=tuple(choices),
        several=several,
    )
    ask = partial(
        run.inputs.services.questions.ask_user, event, run.journal, timeout=run.inputs.settings.question_timeout
    )
    return await while_notifying(run, "question", question, event.request_id, ask)


async def ask_for_sources(run: TurnRun) -> None:
    """Ask what the sources of tools want to know before a turn, if a user can answer. A checkpoint if one asks.

    If cancelled, the question is withdrawn, and asked again in the next turn.
    """
    # A sub-agent has no user of its own, and its parent has asked already.
    if run.inputs.is_child or run.inputs.settings.headless != "wait":
        return
    asked: set[str] = set()
    # Twice: an answer may raise the next question, as that of a server's tools follows the one whether to start it.
    for _ in range(2):
        for question in [each for each in run.inputs.services.tools.questions() if each.text not in asked]:
            asked.add(question.text)
            outcome, answers = await ask_person(run, question.text, (Choice(label=question.yes), _NOT_NOW))
            is_agreed = outcome == "answered" and answers == (question.yes,)
            with ErrorBoundary() as boundary:
                await ForeignCall("`answer` of a source's question", partial(question.answer, is_agreed))
            if boundary.error is not None:
                run.notice("warning", "tool_source", reason_of(boundary.error))


async def _notify(run: TurnRun, subject: Notified) -> None:
    await run.hook_runner.run_each(run.inputs.hooks.notification, subject, Remark())


async def run_session_start_hooks(
    hooks: Hooks, runner: HookRunner, journal: Journal, ids: IdSource, *, source: Literal["new", "resumed"], model: str
) -> None:
    """Notify the hooks that a session starts; what they add for the model comes before the next prompt.

    A checkpoint if a hook is one. If cancelled, the session is open without those additions.
    """
    subject = SessionStarting(session_id=journal.session_id, cwd=journal.state.context.cwd, source=source, model=model)
    answers = await runner.run_each(hooks.session_start, subject, Context())
    contexts = [text for name, context in answers for text in _contexts(name, context)]
    if contexts:
        journal.append(NudgeAdded(message=engine_message(ids, *contexts)))


async def run_idle_hooks(hooks: Hooks, runner: HookRunner, journal: Journal, result: TurnResult) -> None:
    """Notify the hooks that a session is idle. A checkpoint if a hook is one."""
    subject = Idling(session_id=journal.session_id, cwd=journal.state.context.cwd, result=result)
    await runner.run_each(hooks.idle, subject, Remark())


async def run_session_end_hooks(hooks: Hooks, runner: HookRunner, journal: Journal) -> None:
    """Notify the hooks that a session ends. A checkpoint if a hook is one."""
    subject = SessionEnding(session_id=journal.session_id, cwd=journal.state.context.cwd)
    await runner.run_each(hooks.session_end, subject, Remark())


def _contexts(name: str, context: Context) -> list[str]:
    # With its name, so that the model does not take the text for the user's.
    return [f"[the hook {name}] {context.context}"] if context.context else []

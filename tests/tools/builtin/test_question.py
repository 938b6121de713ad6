"""`question` and `plan_exit`: what the user is asked, and what the model is told of the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import pytest
from trio.testing import MockClock

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments
from engine.core.events import Choice, QuestionAnswered, QuestionAsked
from engine.core.settings import Settings
from engine.session.turn import Turn
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.harness import Scenario, play
from engine.testing.script import call, done, text
from engine.tools.builtin.plan_exit import MAX_CHARS, PLAN_EXIT, PlanExit, plan_exit
from engine.tools.builtin.question import MAX_CHARS as MAX_QUESTION_CHARS
from engine.tools.builtin.question import (
    MAX_CHOICES,
    MAX_LABEL_CHARS,
    MAX_QUESTIONS,
    QUESTION,
    OneQuestion,
    Option,
    Question,
    question,
)
from engine.tools.call_values import Need
from engine.tools.tool import Tool
from engine.tools.tool_context import ToolContext, UserAnswers
from tests.support.needs import need_of
from tests.support.world import Played, Seen, world
from tests.tools.conftest import Listener

Asked = tuple[str, tuple[Choice, ...], bool]


@attrs.define
class User(Listener):
    """Says these things, one after the other."""

    words: list[UserAnswers] = attrs.field(factory=list[UserAnswers])
    asked: list[Asked] = attrs.field(factory=list[Asked])

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        self.asked.append((question, choices, several))
        return self.words.pop(0)


def talking_to(ctx: ToolContext, *words: UserAnswers) -> tuple[User, ToolContext]:
    user = User(words=list(words))
    return user, attrs.evolve(ctx, host=user)


async def test_questions_are_asked_in_order(ctx: ToolContext) -> None:
    user, ctx = talking_to(
        ctx, ("answered", ("red",)), ("answered", ("a", "my own")), ("declined", ()), ("answered", ("x",))
    )
    questions = [
        OneQuestion("Which colour?", [Option("red", "like a rose"), Option("blue")]),
        OneQuestion("Which ones?", [Option("a"), Option("b")], several=True),
        OneQuestion("Why?"),
        OneQuestion("And?"),
    ]
    output = await question(Question(questions), ctx)
    assert user.asked == [
        ("Which colour?", (Choice(label="red", description="like a rose"), Choice(label="blue")), False),
        ("Which ones?", (Choice(label="a"), Choice(label="b")), True),
        ("Why?", (), False),
        ("And?", (), False),
    ]
    assert output.text == (
        "Question: Which colour?\nAnswer: red\n\nQuestion: Which ones?\nAnswer: a; my own\n\n"
        "Question: Why?\nAnswer: (no answer: the user declined, or no one is available to answer)\n\n"
        "Question: And?\nAnswer: x"
    )
    assert json.loads(output.metadata) == {"summary": "3 of 4 questions answered", "answered": 3}


@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        ([("declined", ())] * 3, 3, "Answer: (no answer: the user declined, or no one is available to answer)"),
        ([("expired", ())], 1, "(no answer: no one answered in time)\n\n(2 further questions were not asked.)"),
        ([("answered", ("x",)), ("withdrawn", ())], 2, "was withdrawn)\n\n(1 further question was not asked.)"),
    ],
)
async def test_no_answer(ctx: ToolContext, words: list[UserAnswers], asked: int, said: str) -> None:
    user, ctx = talking_to(ctx, *words)
    output = await question(Question([OneQuestion("A?"), OneQuestion("B?"), OneQuestion("C?")]), ctx)
    assert len(user.asked) == asked
    assert said in output.text
    assert ("Go on by your own judgement" in output.text) is (words[0][0] != "answered")
    assert not output.failed


@pytest.mark.parametrize(
    ("words", "mode", "said"),
    [
        (("answered", ("Approve",)), "build", "The user approved the plan. Carry it out."),
        (("answered", (" YES ",)), "build", "The user approved the plan. Carry it out."),
        (("answered", ("Keep planning",)), "plan", "did not approve the plan yet. Change nothing. Improve it"),
        (
            ("answered", ("use sqlite",)),
            "plan",
            "did not approve the plan yet. Change nothing. The user said: use sqlite",
        ),
        (("answered", ("Approve", "but not x")), "plan", "The user said: but not x"),
        (
            ("declined", ()),
            "plan",
            "The user gave no answer, or no one is available to give one: the plan is not approved.",
        ),
        (("expired", ()), "plan", "No one answered in time: the plan is not approved."),
        (("withdrawn", ()), "plan", "The question was withdrawn: the plan is not approved."),
    ],
)
async def test_a_plan(ctx: ToolContext, words: UserAnswers, mode: str, said: str) -> None:
    user, ctx = talking_to(ctx, words)
    output = await plan_exit(PlanExit("1. do it"), ctx)
    ((asked, choices, several),) = user.asked
    assert asked == "Carry out this plan?\n\n1. do it"
    assert ([choice.label for choice in choices], several) == (["Approve", "Keep planning"], False)
    assert said in output.text
    assert output.modify is not None
    assert json.loads(output.modify(ctx.shared).get("mode")) == mode


@pytest.mark.parametrize(
    ("questions", "reason"),
    [
        (None, "questions"),
        ([], "questions"),
        ([{"question": "x"}] * (MAX_QUESTIONS + 1), "questions"),
        ([{}], "question: is required"),
        ([{"question": " "}], "'question' must say something"),
        ([{"question": "x" * (MAX_QUESTION_CHARS + 1)}], "2,000 characters"),
        ([{"question": "x", "choices": [{"label": ""}]}], "'label' must say something"),
        ([{"question": "x", "choices": [{"label": "y" * (MAX_LABEL_CHARS + 1)}]}], "100 characters"),
        ([{"question": "x", "choices": [{"label": "A"}, {"label": "a "}]}], "labels that differ"),
        ([{"question": "x", "choices": [{"label": str(n)} for n in range(MAX_CHOICES + 1)]}], "at most 8"),
        ([{"question": "x", "choices": ["a"]}], "expected object"),
        ([{"question": "x", "several": "both"}], "several"),
        ([{"question": "x", "options": []}], "no such field"),
    ],
)
def test_questions_that_do_not_fit(questions: object, reason: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        parse(Question, json.dumps({"questions": questions}))
    assert reason in str(raised.value)


@pytest.mark.parametrize("plan", [None, "", " \n", 5, "x" * (MAX_CHARS + 1)])
def test_plans_that_do_not_fit(plan: object) -> None:
    with pytest.raises(InvalidArguments):
        parse(PlanExit, json.dumps({"plan": plan}))


ASKS = {"questions": [{"question": "A?", "choices": [{"label": "x"}]}, {"question": "B?"}]}
CALLS: tuple[tuple[Tool, dict[str, object]], ...] = ((QUESTION, {**ASKS}), (PLAN_EXIT, {"plan": "x"}))


def test_declarations() -> None:
    for tool, arguments in CALLS:
        parsed = parse(tool.arguments, json.dumps(arguments))
        assert need_of(tool, parsed) == Need(permission="question")
        assert tool.read_only
        assert not tool.safe(parsed)


# -- in a turn ---------------------------------------------------------------------------------------


async def played(
    tool: Tool, arguments: dict[str, object], answers: Sequence[str], settings: Settings | None = None
) -> Played:
    given = list(answers)

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, QuestionAsked) and given:
            await turn.answer(event.request_id, given.pop(0))

    script = ([*call(tool.name, arguments, id="1"), *done("calls")], [*text("Done."), *done()])
    async with world(*script, tools=[tool]) as w:
        return await w.play(react=react, settings=settings)


async def test_a_client_answers(autojump_clock: MockClock) -> None:
    answered = await played(QUESTION, CALLS[0][1], ["x", "y"])
    assert [s.text for s in answered.settlements] == ["Question: A?\nAnswer: x\n\nQuestion: B?\nAnswer: y"]
    assert [event.outcome for event in answered.all(QuestionAnswered)] == ["answered", "answered"]


async def test_a_client_approves(autojump_clock: MockClock) -> None:
    approved = await played(PLAN_EXIT, {"plan": "x"}, ["Approve"])
    assert [s.text for s in approved.settlements] == ["The user approved the plan. Carry it out."]
    assert approved.session.state.context.get("mode") == '"build"'


async def test_unanswered_question_expires(autojump_clock: MockClock) -> None:
    late = await played(QUESTION, CALLS[0][1], [], Settings(question_timeout=5))
    assert "(1 further question was not asked.)" in late.settlements[0].text


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=["question", "plan_exit"])
async def test_question_without_a_user(autojump_clock: MockClock, tool: Tool, arguments: dict[str, object]) -> None:
    settled = await played(tool, arguments, [], Settings(headless="deny"))
    assert "no one is available" in settled.settlements[0].text


@pytest.mark.slow
@pytest.mark.parametrize("said", [("red",), (), None], ids=["answered", "declined", "not answered"])
@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=["question", "plan_exit"])
def test_a_cancel_anywhere(tool: Tool, arguments: dict[str, object], said: Sequence[str] | None, is_full: bool) -> None:
    script = [[*call(tool.name, arguments, id="1"), *done("calls")]]
    scenario = Scenario(
        script=script, tools=(tool,), settings=Settings(question_timeout=3), say=lambda _: said, must_stop=True
    )
    outcomes = [event.outcome for event in play(scenario).seen if isinstance(event, QuestionAnswered)]
    assert set(outcomes) == {"expired" if said is None else "answered" if said else "declined"}
    every = 1 if is_full else 3
    assert cancel_everywhere(scenario, ways=("user", "host", "user_then_host"), every=every).runs > 50


@pytest.mark.parametrize(
    ("choices", "answer"), [([{"label": "red"}, {"label": "blue"}], "red"), ([], "yes")], ids=["choices", "words"]
)
def test_the_kit_answers_for_the_user(choices: list[object], answer: str) -> None:
    arguments = {"questions": [{"question": "Which?", "choices": choices}]}
    scenario = Scenario(script=[[*call("question", arguments, id="1"), *done("calls")]], tools=(QUESTION,))
    assert [event.answers for event in play(scenario).seen if isinstance(event, QuestionAnswered)] == [(answer,)]

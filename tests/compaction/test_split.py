"""What of a history stays word for word, and what is carried beside the summary (T8)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compaction.message_origin import is_mid_turn, is_user_message
from engine.compaction.rebuild_history import GO_ON, continue_text, parse_summary, rebuild_history
from engine.compaction.split import split_history, tail_budget
from engine.compaction.token_estimate import message_tokens
from engine.compaction.verbatim_parts import PinnedFile, Pins, collect_pins, fit_pins, parse_pins, rules_in
from engine.core.ids import CallId, PartId
from engine.core.messages import AssistantMessage, Message, ReasoningPart, ResultsMessage, UserMessage
from engine.providers.wire.normalize_transcript import arguments_of
from engine.testing.invariants import check_transcript
from engine.testing.transcript_strategies import transcripts
from tests.support.histories import answers, calls, exchange, gives, says, words


def sizes(messages: Sequence[Message]) -> list[int]:
    return [message_tokens(message, "m") for message in messages]


def ids(messages: Sequence[Message]) -> list[str]:
    return [message.id for message in messages]


def named(kind: str) -> str:
    return f"new_{kind}"


@pytest.mark.parametrize(
    ("usable", "wanted", "budget"),
    [(180_000, None, 15_000), (30_000, None, 7_500), (4_000, None, 2_000), (2_000, None, 1_000), (180_000, 500, 500)],
)
def test_t8_tail_is_a_quarter_of_the_window(usable: int, wanted: int | None, budget: int) -> None:
    assert tail_budget(usable, wanted) == budget


def test_t8_tail_is_the_longest_valid_end() -> None:
    messages: list[Message] = [
        says("first", id="u1"),
        *exchange(1, "read", words(900)),
        *exchange(2, "read", words(900)),
        answers("ok", id="z"),
    ]
    selection = split_history(messages, sizes(messages), 1_000)
    assert ids(selection.tail) == ["a2", "r2", "z"]
    assert ids(selection.head) == ["u1", "a1", "r1"]
    assert selection.original is messages[0]
    assert selection.latest is None, "it is the first one"


def test_t8_newest_user_message_stays() -> None:
    huge = says(words(50_000), id="u2")
    messages: list[Message] = [says("first", id="u1"), answers("ok", id="a1"), huge]
    selection = split_history(messages, sizes(messages), 1_000)
    assert selection.tail[-1] is huge
    messages += [message for n in range(3, 9) for message in exchange(n, "read", words(500))]
    selection = split_history(messages, sizes(messages), 1_000)
    assert selection.latest is huge
    assert (ids(selection.tail)[0], ids(selection.pinned)) == ("a8", ["u1", "u2"])


def test_t8_too_large_last_exchange_is_cut() -> None:
    messages: list[Message] = [says("first", id="u1"), answers("hm", id="a0"), *exchange(1, "read", words(40_000))]
    selection = split_history(messages, sizes(messages), 2_000)
    assert ids(selection.tail) == ["a1", "r1"]
    assert sum(sizes(selection.tail)) <= 2_200
    (result,) = [r for m in selection.tail if isinstance(m, ResultsMessage) for r in m.results]
    assert "call read with the same arguments" in result.settlement.text


def test_t8_earlier_summary_is_not_summarised_again() -> None:
    messages: list[Message] = [
        says("first", id="u1"),
        says("the record", id="s1", origin="summary"),
        answers("on it", id="a1"),
        says("go on", id="c1", origin="continue"),
        *exchange(1, "read", words(3_000)),
        says("and now", id="u2"),
    ]
    selection = split_history(messages, sizes(messages), 100)
    assert ids(selection.head) == ["u1", "a1", "a1", "r1"]
    assert selection.previous is messages[1]


@given(messages=transcripts(models=["m"]), budget=st.integers(0, 400))
def test_t8_split_is_valid_and_lossless(messages: tuple[Message, ...], budget: int) -> None:
    selection = split_history(messages, sizes(messages), budget)
    if len(messages) < 2:
        return
    assert not selection.tail or not isinstance(selection.tail[0], ResultsMessage)
    assert [*ids(messages[: selection.start]), *ids(selection.tail)] == ids(messages)
    assert selection.start == len(selection.head)
    latest = [m for m in messages if is_user_message(m)][-1]
    kept = [m for m in (*selection.pinned, *selection.tail) if m is latest]
    assert len(kept) == 1
    made = rebuild_history(selection, "## Objective\nx", Pins(), named, go_on="go")
    if check_transcript(messages) == []:
        assert check_transcript(made) == []


# -- rules of the user -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Fix the bug. Never touch the tests! It is slow.", ["Never touch the tests!"]),
        ("- Use only the standard library\n- nice weather", ["Use only the standard library"]),
        ("You must keep Python 3.8 support. Thanks", ["You must keep Python 3.8 support."]),
        ("Bitte nicht die Datenbank ändern. Danke", ["Bitte nicht die Datenbank ändern."]),
        ("不要修改测试。谢谢。", ["不要修改测试。"]),
        ("What does it do?", []),
        ("Look:\n```\nassert x must be y\n```\nok", []),
        ("", []),
    ],
)
def test_t8_user_rules_are_found(text: str, rules: list[str]) -> None:
    assert rules_in(text) == rules


@pytest.mark.parametrize(
    "text",
    [
        "Don\u2019t touch the tests.",
        "Please don\u2019t push.",
        "No external dependencies.",
        "Please, no emojis in commit messages.",
        "Use tabs for indentation.",
        "Leave the tests as they are.",
        "Hands off the migrations folder.",
        "The lock file is off limits.",
        "I want every function typed.",
        "You have to run make lint first.",
        "Limit lines to 80 characters.",
        "Keep it under 100 lines.",
        "Nothing but the standard library.",
        "Tabs, not spaces.",
        "Answer in German from now on.",
        "It stays compatible with 3.8.",
        "Lass die Tests in Ruhe.",
        "Verwende ausschließlich die Standardbibliothek.",
        "Ne touche pas aux tests.",
        "N'utilise rien d'autre.",
        "No toques los tests.",
        "Hay que mantener los nombres.",
        "Não mexa nos testes.",
        "Non toccare i test.",
        "Gebruik nooit globale variabelen.",
        "Nigdy nie zmieniaj testów.",
        "Не трогай тесты.",  # noqa: RUF001 -- it is Russian
        "Ніколи не чіпай тести.",
        "Testleri değiştirmeyin.",
        "Aldrig röra testerna.",
        "Μην αλλάξεις τα τεστ.",
        "لا تلمس الاختبارات.",
        "אל תיגע בבדיקות.",
        "परीक्षणों को मत छुओ",
        "ห้ามแก้ไขการทดสอบ",
        "Đừng sửa các bài kiểm tra.",
        "Jangan ubah tesnya.",
        "别动测试。",
        "請勿修改測試。",
        "只用标准库。",
        "テストに触らないで。",
        "標準ライブラリだけを使う。",
        "테스트를 건드리지 마세요.",
    ],
)
def test_t8_rules_are_found_in_many_languages(text: str) -> None:
    assert rules_in(f"{text}\nIt is slow\n特别好") == [text]


@pytest.mark.parametrize(
    "text",
    [
        "What does it do?",
        "Fix the login bug.",
        "Run the tests and tell me what you see.",
        "I want you to look at the parser.",
        "No, that is wrong.",
        "No problem",
        "And now?",
        "Was macht das?",
        "¿Y ahora?",
        "那是什么",
        "别人怎么做",
    ],
)
def test_t8_what_only_asks_for_something_is_none(text: str) -> None:
    assert rules_in(text) == []


def test_t8_list_of_rules_keeps_its_heading() -> None:
    text = "Write a parser.\n\n## Requirements\n- Python 3.8 support\n\n* tabs\nSteps:\n1. read it\nHands off:\n1) src/a.py\nok"
    assert rules_in(text) == [
        "Requirements Python 3.8 support",
        "Requirements tabs",
        "Hands off: src/a.py",
    ]
    assert rules_in("Hands off:\nsrc/a.py\nok") == ["Hands off:"]
    assert rules_in("# Never push") == ["# Never push"]


def test_t8_an_abbreviation_ends_no_rule() -> None:
    text = "Never call a service, e.g. the weather. It is slow. Tests nie löschen, z.B. die alten. Danke"
    assert rules_in(text) == ["Never call a service, e.g. the weather.", "Tests nie löschen, z.B. die alten."]


def test_t8_rules_at_both_ends_of_a_paste() -> None:
    found = rules_in(f"Never push.\n{'Each line must be so. And so. ' * 10_000}\nAlways use tabs.")
    assert (found[0], found[-1]) == ("Never push.", "Always use tabs.")


def test_t8_pasted_document_yields_bounded_rules() -> None:
    found = rules_in("\n".join(f"The system must do {n} {words(400)}" for n in range(500)))
    assert len(found) == 40
    assert all(len(rule) <= 1_001 for rule in found)


def test_t8_rules_and_files_carry_over() -> None:
    changed = calls("edit", {"path": "src/a.py"}, id="1")
    read = calls("read", {"path": "src/b.py"}, id="2")
    patch = calls("apply_patch", {"patch": "*** Begin Patch\n*** Update File: src/c.py\n"}, id="3")
    first: list[Message] = [says("Always use tabs. Make it work"), answers("", calls=[changed, read, patch])]
    pins = collect_pins(
        first, read_only=frozenset({"read"}), digests={"/p/src/a.py": "ab12"}, todos=["1. [pending] test it"]
    )
    assert pins.rules == ("Always use tabs.",)
    assert pins.files == (PinnedFile("src/b.py"), PinnedFile("src/a.py", True, "ab12"), PinnedFile("src/c.py", True))
    selection = split_history([*first, says("next", id="u2")], [10, 10, 10], 10)
    made = rebuild_history(selection, "## Objective\nx", pins, named)
    record = next(m for m in made if isinstance(m, UserMessage) and m.origin == "summary")
    assert parse_pins(record) == Pins(rules=pins.rules, files=pins.files)
    assert parse_summary(record) == "## Objective\nx"
    again = collect_pins(
        [record, says("Never push.", id="u3"), answers("", calls=[calls("edit", {"path": "src/b.py"}, id="4")])]
    )
    assert again.rules == ("Always use tabs.", "Never push.")
    assert again.files == (
        PinnedFile("src/a.py", True, "ab12"),
        PinnedFile("src/c.py", True),
        PinnedFile("src/b.py", True),
    )


def test_t8_lookalike_record_carries_nothing() -> None:
    assert parse_pins(says("What the user said", origin="summary")) == Pins()


@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", "[" * 90_000, "null", '{"path": 5}', '{"path": ""}', '{"path": "a\\nb"}']
)
def test_t8_arguments_of_any_kind_name_no_file(arguments: str) -> None:
    call = calls("edit", {}, id="1")
    broken = type(call)(id=call.id, call_id=call.call_id, tool="edit", arguments=arguments)
    assert collect_pins([answers("", calls=[broken])]).files == ()


# -- going on ----------------------------------------------------------------------------------------------------------


def test_t11_model_continues_only_if_interrupted() -> None:
    assert not is_mid_turn([])
    assert not is_mid_turn([says("go")])
    assert not is_mid_turn([says("go"), says("[the hook x] hm", origin="engine")])
    assert is_mid_turn([says("go"), answers("on it")])
    assert is_mid_turn([says("go"), *exchange(1, "read", "x"), says("hm", origin="engine")])
    assert continue_text([says("go")], was_too_large=True) == ""
    assert continue_text([answers("x")], was_too_large=False) == GO_ON
    told = continue_text([answers("x")], was_too_large=True, report="It is full.")
    assert told.startswith("The last request was too large")
    assert told.endswith("It is full.")


def test_t8_new_history_keeps_first_message_and_tail() -> None:
    messages: list[Message] = [
        says("first", id="u1"),
        *exchange(1, "read", words(900)),
        says("second", id="u2"),
        *exchange(2, "read", words(900)),
        *exchange(3, "read", words(900)),
    ]
    selection = split_history(messages, sizes(messages), 1_000)
    made = rebuild_history(selection, "the summary", Pins(rules=("Use tabs.",)), named, go_on="go on")
    assert ids(made) == ["u1", "new_msg", "u2", "a3", "r3", "new_msg"]
    assert made[0] is messages[0]
    assert [m.origin for m in made if isinstance(m, UserMessage)] == ["user", "summary", "user", "continue"]
    assert [type(m) for m in made[3:5]] == [AssistantMessage, ResultsMessage]


def test_t8_carried_records_are_bounded() -> None:
    rules = tuple(f"Rule {n} must hold, whatever {words(20)}." for n in range(50))
    files = tuple(PinnedFile(f"src/{n}.py", True) for n in range(500))
    kept = fit_pins(Pins(rules=rules, files=files), 900)
    assert kept.rules == rules[-len(kept.rules) :]
    assert 10 < len(kept.rules) < 50
    assert (kept.dropped_rule_count, kept.dropped_file_count) == (50 - len(kept.rules), 500 - len(kept.files))
    assert kept.files == files[-len(kept.files) :]
    assert 20 < len(kept.files) < 500
    assert fit_pins(Pins(rules=rules[:3], files=files[:3]), 900) == Pins(rules=rules[:3], files=files[:3])


def test_t8_long_last_exchange_is_cut_validly() -> None:
    write = calls("write", {"path": "a.py", "content": words(20_000), "mode": 6}, id="1")
    broken = type(write)(id=write.id, call_id=CallId("2"), tool="write", arguments='{"content": "' + words(9_000))
    listed = type(write)(id=write.id, call_id=CallId("3"), tool="write", arguments=json.dumps([words(9_000)]))
    thought = ReasoningPart(id=PartId("t"), text=words(3_000), signature="signed")
    answer = answers(words(9_000), id="a1", calls=[write, broken, listed])
    answer = type(answer)(id=answer.id, parts=(thought, *answer.parts), model="m")
    messages: list[Message] = [
        says("go", id="u1"),
        answers("hm", id="a0"),
        answer,
        gives((write, "ok"), (broken, "no"), (listed, "no")),
    ]
    selection = split_history(messages, sizes(messages), 2_000)
    cut = selection.tail[0]
    assert isinstance(cut, AssistantMessage)
    assert cut.parts[0] is thought, "a signature is of all of it"
    assert len(cut.text) < 2_000
    shown = json.loads(cut.calls[0].arguments)
    assert (shown["path"], shown["mode"], len(shown["content"]) < 2_000) == ("a.py", 6, True)
    assert all(len(call.arguments) < 2_000 for call in cut.calls[1:]), "hosts are sent {} for them, then and now"
    assert [arguments_of(call) for call in cut.calls[1:]] == ["{}", "{}"]

"""Detect rules that are stated plainly, without a word of obligation: "The port stays 7431.", "We use pnpm here.".

A statement of how things are to be is told from a report of how they are by its form and its verbs. Reports of faults are
excluded first: they have the same forms.
"""

# ruff: noqa: RUF001 -- users write in many alphabets

from __future__ import annotations

import re
from typing import Final

# A statement is short; longer sentences are stories.
_LONGEST: Final = 200

# What is said of faults and of results, which a rule is hardly ever about.
_REPORT: Final = re.compile(
    r"""\b(?:fail(?:s|ed|ures?)?|(?:is|are|keeps?)\ failing|error\ (?:is|in|on|at|says?|again|message)|errors\ (?:in|on|at)|crash\w*|broken|breaks|bugs?|issues?
    |problems?|wrong|flaky|slow|stale|confus\w+|(?:is|are)\ (?:still\ )?(?:down|red|green)|missing|undefined|null|empty|hangs?|leaks?|passe?[sd]?|warnings?\ in
    |^(?:the\ )?(?:answer|count|status|result|value|output|total|sum|response)s?\ (?:is|are)|exceptions?|traceback|stack|expected|message\ is|screen|returns|looks|seems|happen\w*|called\ (?:twice|again|from|by|with|in|on
    |when|before|after|once)|complain\w*|fehl(?:er|schlägt|en)|schlagen\ fehl|échou\w+|erreur|falla\w*)\b|ошибк|失败|错误|エラー|失敗|실패|오류""",
    re.IGNORECASE | re.VERBOSE,
)
_TOPIC: Final = r"""(?:minimum|maximum|min|max|default|standard|convention|style|limit|timeout|licen[cs]e|baseline|target|policy
    |(?:line|max(?:imum)?)\ (?:length|width)|indent(?:ation|ing)?|encoding|port|(?:\w+\ )?version|language|naming|quotes?|tabs|spaces
    |type\ hints|docstrings|commit(?:\ message)?s?|snake_case|camelCase|PascalCase|kebab-case)"""
_TOOL: Final = r"(?:manager|framework|database|runner|tool|toolchain|formatter|linter|library|platform|format|stack|engine|compiler)"
_STATEMENT: Final = re.compile(
    rf"""
    # Something is to stay as it is.
    \b(?:stays?|remains?|will\ (?:stay|remain)|keeps\ its)\b
    |\b(?:is|are)\ (?:frozen|immutable|append-only|protected|final|locked|reserved|generated|vendored|pinned|stable|deprecated
        |private|public|optional|untouchable|non-negotiable|off\ the\ table|set\ in\ stone|taboo|sacred|fixed)\b
    # How the user and their project work.
    |\b(?:we|i)\ (?:always\ |usually\ |generally\ )?(?:use|deploy|support|target|follow|prefer|like|love|hate|dislike|expect|insist
        |write|name|format|indent|squash|rebase|sign|pin|log|store|document|go\ with|work\ (?:on|in|with)|stay\ (?:on|with)|stick)\b
    |^(?:here\ )?we\ (?!(?:have|had|need|want|get|got|see|saw|think|know|knew|found|can|could|might|may|will|would|were|did|do|just
        |already|also|now|still|went|made|lost|hit|ran|met|are|\w+ed)\b)\w+\ \w
    |\bwe(?:'re|\ are)\ an?\b|\bi(?:'m|\ am)\ on\ (?-i:[a-z]*[A-Z]\w+)
    |^our\ (?:\S+\ ){1, 3}(?:is|are|runs?|uses?|lives?|targets?|follows?)\b|\b(?:is|are)\ our\b
    |\b(?:is|are)\ (?:written|stored|logged|tagged|kept|formatted|sorted|named|encoded|given|measured|versioned)\ (?:in|as|with|by|v?\d)
    |\bruns?\ on\ (?-i:[A-Z])|\buses\ (?-i:[A-Z])|\bdefaults?\ to\b|\bnames\ start\ with\b|\blistens?\ on\b|\bcomes?\ from\ the\b
    |\bworks?\ (?:with|on)\ (?-i:[A-Z]\w+)\ \d|\bwhere(?:ver)?\ possible\b|,\ no\ \w+[.!]?$|^\w+\ over\ \w+[.!]?$|^leave\b
    |^just\ the\b|^(?:small|short|plain|pure|simple|minimal)\ \w+s(?:,\ please)?[.!]?$
    |\bwe(?:'re|\ are)\ (?:on|using|targeting|supporting|staying)\b
    |\b(?:this|the|our)\ (?:project|repo|repository|codebase|team|code|app|application|package|library|service)
        \ (?:uses|targets|supports|follows|runs\ on|is\ (?:written\ )?in|prefers)\b
    |^(?:{_TOPIC})\b(?:\ (?:is|are|of|for|in|per|everywhere|at)\b|:|\ \d|\.?$)
    |^(?:the|our)\ (?:\S+\ )?{_TOPIC}\ (?:is|are)\b|^(?:the|our)\ (?:default|main|target|minimum|maximum)\ \w+\ (?:is|are)\b|\b(?:is|are)\ (?:our|the)\ (?:\S+\ )?{_TOPIC}\b
    |^(?:two|four|eight|single|double|small|\d+|max(?:imum)?)\ (?:\S+\ )?{_TOPIC}\b
    # What things are, with a value to rely on.
    |^(?:the\ |our\ )?(?:[\w-]+\ )?[\w-]+\ (?:is|are|=)\ (?:called\ |named\ |on\ |at\ |in\ )*(?:`[^`]+`|\d[\w.:]*|[\w-]*[/_.][\w/_.-]+|(?-i:[a-z]+[A-Z]\w*))
        (?:\ [a-zA-Z%]{{1,7}})?[.!]?$
    |^(?:the\ |our\ )?(?:[\w-]+\ )?[\w-]+\ (?:is|are)\ (?-i:[A-Z][\w+#'-]*)(?:\ [\d.]+)?[.!]?$
    |^(?:the\ |our\ )?(?:[\w-]+\ )?[\w-]+\ (?:is|are)\ (?:called|named)\ \S+$
    |^[a-z]+s\ are\ (?:in\ [\w-]+|errors|(?-i:[A-Z]\w+|\w+[_-]\w+|[a-z]+[A-Z]\w*)|(?:upper|lower)case)[.!]?$
    |^all\ (?:the\ )?\w+\ (?:are|have|use|go|get|need|take|live|start|end)\b
    |^[\w\ -]{{2,30}}:\ (?:\d+\b.{{0,12}}|[\w.-]+)$
    |\b(?:is|are)\ (?:\w+ed\ (?:with|using)|\w+\ by\ hand)\b|\bnames\ are\b|^[a-z]+ing\ is\ \w+[.!]?$
    |\bis\ an?\ (?-i:[A-Z][A-Z\w]+)|\b(?:is|are)\ the\ (?:\w+\ )?{_TOOL}\b|^(?:the|our)\ (?:\w+\ )?{_TOOL}\ (?:is|are)\b
    |^the\ (?:team|customer|client|company|boss|reviewer|users?)\ (?:writes?|runs?|uses?|wants?|prefers?|likes?|expects?)\b
    |\bmatters?\b|\ba\ rule\b|\brule\ is\b|\b(?:British|American)\ (?:English|spelling)\b
    # Where things belong.
    |\b(?:go|goes|lives?|belongs?)\ (?:in|into|to|under|through|via|next\ to|inside|below)\ (?!the\ (?:wrong|page)\b)
    |^(?:please\ )?put\ (?:new|all|any)\b
    # How to work: an order that holds for more than one task.
    |^(?:please,?\ )?(?:follow|stick|treat|assume|indent|prefix|suffix|sign\ your|stay|wait\ (?:for|until)|stop\ (?:after|before|if|when|at)|go\ with|work\ (?:in|with|on\ (?:the\ )?branch)
        |call\ me|be\ (?:brief|concise|careful|terse|gentle|conservative|thorough|polite|precise|strict)
        |(?:answer|reply|respond|speak|talk|write)\ (?:to\ me\ )?(?:in|with)\ (?!the\b)|name\ (?:\w+\ after|the\ \w+\ \w+(?=[.!]?$))
        |check\ with\ me|ask\ me|tell\ me\ before|small\ commits|make\ small|skip\ the\ explanations?)\b
    |^(?:let's|let\ us)\ (?:stay|stick|keep|use|go\ with|settle|agree)\b
    |\bbefore\ (?:commit|push|merg|delet|releas|deploy|you|each|any|chang|touch|(?:the\ )?(?:code|implementation))\w*
    |\bper\ (?:commit|file|change|test|module|function|class|line|package|request|PR|branch|feature)\b
    |\btests?\ first\b|^first\ the\ tests?\b|^(?:speak|write|answer|explain)\ (?:plainly|briefly|simply)\b
    |^(?!(?:please\ )?(?:fix|look|start|try|do)\b)(?:.*\ )?first(?:[.!]?$|,\ (?:then\b|\w+\ (?:later|second|last|after)))
    # The same in other languages.
    |\bwir\ (?:be)?nutzen\b|\bwir\ (?:verwenden|nehmen|arbeiten|schreiben)\b|\bzuerst\b
    |\b(?:on|nous)\ utilis\w+|\brest(?:e|ent|era)\b|\bd'abord\b
    |\busamos\b|\b(?:sigue|siguen|queda|quedan)\b|\b(?:escrib\w+|escreva)\ primei?ro\b|\bcontinua[m]?\b
    |\busiamo\b|\b(?:resta|rimane|restano|rimangono)\b|\bprima\ i\ test\b
    |\bblij(?:ft|ven)\b|\b(?:we|wij)\ gebruiken\b
    |оста[её]тся|остаются|мы\ используем|сначала|залиша[єю]ться|використовуємо|używamy|zostaje|kullanıyoruz|kalır
    |我[们們](?:都)?(?:用|使用)|^先|不变|不變|使(?:います|う)[。.]?$|のまま|まず|사용합니다|유지|먼저
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_plain_statement(sentence: str) -> bool:
    """Return whether a sentence states how something is to be; questions and reports of faults do not."""
    text = sentence.replace("\u2019", "'").strip()
    if len(text) > _LONGEST or text.endswith(("?", "\uff1f")) or _STATEMENT.search(text) is None:
        return False
    return _REPORT.search(text) is None

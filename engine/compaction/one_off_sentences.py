"""Detect sentences that are over once they are answered: questions, replies, tasks about one thing, reports of faults.

Whatever else a user says is preserved, so these lists are of what users type most, not of what a rule may look like: an
unknown form costs a line, where a list of the forms of rules would lose a rule. An imperative is a task if it is about one
thing ("run the tests"), and not if it says when or how often ("run the tests before each commit").
"""

from __future__ import annotations

import re
from typing import Final

# A statement is short; longer sentences are stories.
_LONGEST: Final = 200
_FEWEST_LETTERS: Final = 4
# Chinese, Japanese and Korean have no words with spaces between, or short ones.
_WIDE: Final = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
_FEWEST_WIDE: Final = 5
# What prose hardly contains outside of backticks: such lines are code, output or commands.
_SYMBOLS: Final = re.compile(
    r"[{}<>|=\\^~$]|;$|\(\)|->|::|\*{3}|\d\d:\d\d|^(?:at|File)\s\S+[(:\"]|^(?:import|from)\s[\w.]+$"
)
_QUOTED: Final = re.compile(r"`[^`\n]*`")
# "Timeout = 45 s for all calls." is prose, since it ends with a full stop; "timeout = 30s" is, since no code has units.
_UNIT: Final = r"(?:ms|s|sec|min|h|days?|[kKMG]i?B|%|px|r?em)"
_SETTING: Final = re.compile(rf"^(?:[A-Z][\w ]* = (?=.*\.$)|[A-Za-z][\w .-]* ?= ?(?=\d+(?:\.\d+)? ?{_UNIT}$))")

_LEAD: Final = re.compile(
    r"""(?:(?:please|pls|ok(?:ay)?|so|and|also|but|then|now|next|first|finally|hey|hi|well|alright|right|can\ you|could\ you|quickly|let's|lets|let\ us
    |bitte|dann|jetzt|und|aber|also|s'il\ (?:te|vous)\ pla[iî]t|et|puis|maintenant|alors|por\ favor|y|ahora|luego|entonces)\b,?\ +)+""",
    re.IGNORECASE | re.VERBOSE,
)
# "First the tests, then the code." and "Now we use pnpm." are no tasks.
_KEPT_LEAD: Final = re.compile(r"first\s+the\b|(?:first|then|now)\s+(?:we|i|all|our)\b", re.IGNORECASE)

# Says when, how often or in which order, so it is more than one task.
_STANDING: Final = re.compile(
    r"""\b(?:before|after|when|whenever|while|until|once|unless)\ (?:commit|push|merg|delet|releas|deploy|you|each|any|every|chang|touch|writ|start|mov|instal|sav|edit
        |add|creat|finish|(?:the\ )?(?:code|implementation|review|merge|release|commit|push))
    |\bper\ \w|\bfirst(?:[.!]?$|,\ (?:then\b|\w+\ (?:later|second|last|after|next)))|\b(?:zuerst|d'abord|primero|primeiro)\b
    |\b(?:by\ default|where\ possible|as\ usual|works?\ (?:with|on)\ (?-i:[A-Z]\w+)\ \d|in\ general|going\ forward|in\ future|for\ now|on\ save)\b|^stop\ (?:after|before|if|when|at)\b|^assume\b|^take\ care\b|\bin\ (?:small|tiny|separate|single|atomic)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_QUESTION: Final = re.compile(
    r"""(?:what|why|who|whose|which|how|where(?=\ (?:is|are|do|does|did|should|can|would|to)\b)|what's|whats|how's|where's|who's)(?:\ (?!ever)|$)
    |(?:(?:can|could|would|will|do|does|did|should|is|are|was|were|has|have|isn't|isnt|aren't|don't|doesn't|didn't)\ (?:you|we|i|it|this|that|there|the|they|he|she)\b)
    |(?:wie|warum|wieso|weshalb|kannst|könntest|gibt\ es|pourquoi|comment|est-ce|peux-tu|por\ qué|cómo|dónde|puedes|podrías)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_WISH: Final = re.compile(r"(?:would|do)\ you\ mind\b", re.IGNORECASE)
_PLEA: Final = re.compile(r"(?:can|could|would|will)\ you\b", re.IGNORECASE)
_REPLY: Final = re.compile(
    r"""(?:yes|yeah|yep|yup|sure|no,|nope|nah|ok|okay|thanks?|thank\ you|thx|hm+|hey|hi|hello|wow|oops|sorry|hang\ on|hold\ on
    |wait,|wait\ a|go\ (?:ahead|on\b)|continue|proceed|sounds|looks\ (?:good|fine|right|great)|lgtm|same\ (?:thing|error|here|again)|maybe|perhaps|could\ be|not\ (?:sure|yet|quite|really|that|what)|never\ mind|got\ it|i\ see\b
    |(?:that's|that\ is|it's|it\ is|this\ is)\ (?:good|great|right|wrong|not|fine|better|odd|strange|weird)(?!\ (?:to|if|when)\b)|here(?:'s|\ is|\ are)\ (?:the|my|what|how)\b
    |(?:it|that|they)(?:'s|\ is|\ are)?\ (?:still|works?|looks?|happens?|used\ to|sounds)\b|this\ (?:was|is\ the)\b|option\ \w+[.!]?$|the\ (?:first|second|third|last|other)\ one\b
    |danke|genau|prima|stimmt|merci|d'accord|parfait|gracias|vale|perfecto|nein,)(?:\W|$)
    |(?:great|perfect|nice|cool|good|awesome|excellent|wonderful|super|both|skip|again|next|strange|weird|interesting)(?:[,.!]?$|[,.!]\ |\ (?:job|work|catch|idea|point|one|thanks?|morning|weather|to\ me)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_PAST: Final = r"(?:\w+ed|got|saw|had|ran|made|found|tried|did|went|lost|hit|met|seen|been|taken|done|gone|thought|wrote|sent|was|built|broke|forgot|put|left|knew|read)"
# What the user has done, sees or wishes now.
_ABOUT_ME: Final = re.compile(
    rf"""i(?:'ve|\ have|\ just|\ also|\ already|\ had)*\ (?!decided|agreed|settled|chose){_PAST}\b|i\ (?:get|see|think|believe|guess|suspect|wonder|hope|mean|assume|don't\ (?:know|understand|see|get|think)
        |have\ an?\ (?:question|problem|error|issue)|(?:need|want|would\ like)\ (?:you|a|an|to|some|help|it|this))\b|i\ can(?:'t|not)?\ (?:see|find|reproduce|get|open|access)\b
    |i(?:'ll|\ will)\ (?:be|check|look|test|try|see|send|think|let|get|come|wait|go)\b|(?:i'm|i\ am)\ (?:getting|seeing|trying|going|looking|stuck|confused)\b|i'd\ (?:like|love)\ (?:you|a|an|to|it)\b
    |(?:we're|we\ are)\ (?:seeing|getting|going\ to|hitting|trying)\b|we\ (?:need|want)\ (?:a|an|to)\b|we(?:'ve|\ have|\ just|\ already|\ had)*\ (?!decided|agreed|settled|chose|moved|switched|dropped|banned|standardi[sz]ed|migrated|need|adopted|merged|shared|based){_PAST}\b|let\ me\ (?:know|look|see|think|check|try)
    |ich\ (?:habe|sehe|bekomme|glaube|denke|möchte|brauche|hätte)\b|j'ai\b|je\ (?:veux|voudrais|pense|crois|vois)\b|(?:tengo|quiero|creo|veo|necesito)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_REPORT: Final = re.compile(
    r"""\b(?:failed|fails\ (?:with|on|in|at|again|when)|(?:is|are|still|keeps?|test|tests|build|job)\ (?:failing|fails?)|crash(?:es|ed)|(?:is|are)\ (?:still\ |now\ |too\ )?(?:broken|red|wrong|slow|blank|undefined|stuck|empty|missing|outdated|flaky|down|full|confused|stale)(?=[.!]?$|\ (?:again|now|after|when|since|on|in|at|today)\b)
    |throws\ an?|exits\ with(?!.*\ (?:on|for|if)\ )|hangs\b|complains?|flickers?|overlaps|returns\ (?:none|null|nothing|\d\d\d|duplicates)|the\ (?:bug|problem|issue)\ |(?:doesn't|does\ not)\ (?:work|close|open|load|start|compile)|(?:there's|there\ is)\ (?:a|an|some)\ (?:bug|problem|issue|typo|error|race)|error\ (?:is|says|again|message)
    |when\ i\ (?:click|open|run|start|hover|try|use|press|load|type|log|go|do|call|save|submit|add|get|set|send|change)\b|yesterday|last\ (?:night|week|month)|returns\ the\ wrong|by\ one\b|schlagen\ fehl|schlägt\ fehl|échou\w+|falla\w*)(?!\w)|ошибк|失败|エラー|失敗|실패|오류""",
    re.IGNORECASE | re.VERBOSE,
)
# A noun of the same form is followed by the verb of its sentence ("Commit messages are in the imperative."), or by a value
# ("Retry limit: 3.").
_NO_NOUN: Final = r"(?=[\s.!:,]|$)(?!(?:\s+[\w-]+){1,2}:\s+\S+[.!]?$)(?!(?:\s+[\w-]+){0,2}\s+(?:is|are|stays?|goes|lives?|follows|belongs?|has|have|must|should|comes?|wins?|counts?)\b)"
# Verbs of work that is done once.
_WORK: Final = re.compile(
    r"""(?:fix|debug|investigate|diagnose|find|locate|search|look|see|explore|examine|inspect|analy[sz]e|list|explain|describe|summari[sz]e|compare|implement|create|generate|regenerate|scaffold|design|refactor|rewrite|rework
    |rename|remove|delete|drop|replace|move|extract|convert|migrate|upgrade|downgrade|bump|install|uninstall|update|change|modify|adjust|tweak|edit|set\ up|configure|start|restart|try|retry|finish|complete|undo|redo|revert|roll\ back|bisect
    |profile|optimi[sz]e|improve|speed\ up|simplify|inline|translate|draft|give|help|paste|reproduce|resolve|solve|hook|wire|integrate|connect|turn|increase|decrease|reduce|enable|disable|seed|count|calculate|compute|download
    |upload|center|align|highlight|animate|rerun|execute|launch|figure|understand|say|extend|swap|stop|plot|rollback|tell\ me\ (?:what|how|why|where|which|if|about)
    |behebe?|erkläre?|zeige?|mach|erstelle?|baue?|ändere?|lösche?|entferne?|suche?|finde?|prüfe?|implementiere?|füge?|ersetze?|verschiebe?|benenne|starte?
    |corrige|ajoute|crée|explique|montre|cherche|supprime|modifie|renomme|répare|lance|vérifie|trouve
    |arregla|añade|agrega|crea|explica|muestra|busca|borra|elimina|cambia|renombra|ejecuta|actualiza|haz)"""
    + _NO_NOUN,
    re.IGNORECASE | re.VERBOSE,
)
# Verbs of tasks and of rules alike: what they are about decides. Those of the first kind make one thing in many words ("add
# error handling to the client"), those of the second kind are also said of a habit ("handle errors at the boundary").
_MAKE: Final = re.compile(
    r"(?:add|write|run|check|verify|review|put|make|do|include|import|export|show|print|parse|read|split|combine|port|apply|merge|clean|get|take"
    r"|pull|open|save|load|set|schreibe?|führe?|écris|escribe)" + _NO_NOUN,
    re.IGNORECASE,
)
_HABIT: Final = re.compile(
    r"(?:test|commit|push|format|lint|log|document|mock|sort|group|cover|deploy|publish|release|build|style|return|store|wrap|handle"
    r"|validate|cache|teste?|prueba)" + _NO_NOUN,
    re.IGNORECASE,
)
_DETERMINER: Final = (
    r"(?:the|this|that|these|those|it|them|an?|another|my|his|her|der|die|das|den|dem|dies\w+|ein|eine[nmr]?|dafür|la|le|les|un"
    r"|une|ce|cette|el|los|las|una|este|esta)\b"
)
_FILE: Final = r"(?:\s+\S+){0,4}?\s+[\w/]*\w\.[a-z]{1,4}\b"
_ONE_THING: Final = re.compile(rf"(?:\s+(?!with\b|as\b)\S+){{0,2}}?\s+{_DETERMINER}|{_FILE}|[.!]?$", re.IGNORECASE)
_NEXT_THING: Final = re.compile(rf"\s+{_DETERMINER}|{_FILE}|[.!]?$", re.IGNORECASE)
# Questions and tasks in other alphabets.
_OTHER_TASK: Final = re.compile(
    r"""(?:исправ|добав|сдела|покаж|объясн|напиш|созда|удал|найд|провер|запуст|почему|как\b|что\b|где\b|спасибо|виправ|дода)
    |(?:请|請)?(?:修复|修正|添加|增加|实现|解释|写|创建|删除|查找|检查|运行|看|帮|谢|好)|[^。]*(?:什么|怎么|为何|哪[里个]|吗)|(?:ありがと|[^。]*(?:修正して|追加して|作って|教えて|見て|か[。]?$))
    |(?:[^.]*(?:수정해|추가해|만들어|설명해|알려|보여))""",
    re.IGNORECASE | re.VERBOSE,
)


def is_statement(sentence: str) -> bool:
    """Return whether a sentence states something that may still hold after it was answered."""
    text = sentence.replace("\u2019", "'").strip()
    if not _is_short_prose(text):
        return False
    if text.endswith(("?", "\uff1f", ":", "…")):
        return _WISH.match(text) is not None
    return not _is_one_off(text) and _OTHER_TASK.match(text) is None


def is_open_question(sentence: str) -> bool:
    """Return whether a sentence asks for an answer; "Could you keep it short?" asks for something else."""
    text = sentence.replace("\u2019", "'").strip()
    return text.endswith("?") and _QUESTION.match(text) is not None and _PLEA.match(text) is None


def _is_short_prose(text: str) -> bool:
    if not 0 < len(text) <= _LONGEST or not (text[0].isalnum() or text[0] in "`\"'*"):
        return False
    fewest = _FEWEST_WIDE if _WIDE.search(text) else _FEWEST_LETTERS
    return len(text) >= fewest and _SYMBOLS.search(_SETTING.sub("", _QUOTED.sub("", text))) is None


def _is_one_off(text: str) -> bool:
    lead = None if _KEPT_LEAD.match(text) is not None else _LEAD.match(text)
    bare = text if lead is None else text[lead.end() :]
    if _QUESTION.match(bare) is not None or _REPLY.match(bare) is not None:
        return True
    if _STANDING.search(bare) is not None:
        return False
    if any(pattern is not None for pattern in (_ABOUT_ME.match(bare), _REPORT.search(bare), _WORK.match(bare))):
        return True
    kinds = ((_MAKE, _ONE_THING), (_HABIT, _NEXT_THING))
    return any((verb := verbs.match(bare)) and thing.match(bare, verb.end()) for verbs, thing in kinds)

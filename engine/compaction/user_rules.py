"""Find what a user has said that is to survive a summary: rules, and plain statements.

Rules say by their words how to work or how not to: words of negation, obligation and limitation count, in the languages
that users write most, and so do the items of a list below a line that announces rules. Many rules have no such word ("The
port stays 7431."), so the other sentences are kept too unless they are over once they are answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from engine.compaction.one_off_sentences import is_open_question, is_statement
from engine.compaction.pasted_output import is_output

_WORDS: Final = frozenset(
    """
    must mustn't needn't never always don't dont do-not shouldn't should shall shan't cannot can't only solely exclusively
    without avoid refrain keep ensure require requires required requirement requirements constraint constraints forbidden
    prohibited banned disallowed important mandatory obligatory prefer preferably exactly strictly remember every each
    nothing nobody nowhere neither unless except untouched unchanged off-limits read-only backwards-compatible
    backward-compatible stick ought whenever
    nie niemals immer muss müssen musst müsst darf dürfen darfst nicht nichts niemand nur ohne kein keine keinen keinem
    keiner keines wichtig soll sollen sollte sollst stets unbedingt ausschließlich lediglich verboten vermeide vermeiden
    lass lasst bleibt bleib jede jeder jedes jeden statt
    ne jamais toujours doit doivent dois devez sans seulement uniquement interdit obligatoire aucun aucune rien surtout
    évite évitez éviter faut
    nunca siempre debe deben debes sólo solo solamente únicamente sin nada nadie ningún ninguna prohibido obligatorio
    evita evitar excepto salvo
    não nunca sempre apenas somente sem deve devem nenhum nenhuma proibido obrigatório evite
    non mai sempre deve devono devi soltanto senza vietato nessun nessuno nessuna bisogna
    niet nooit altijd moet moeten alleen geen zonder vermijd verboden
    nie nigdy zawsze musi musisz muszą tylko bez należy wolno nikdy vždy pouze jen nesmí
    asla daima sadece yalnızca gerekir gerekiyor zorunda zorunlu yasak hiçbir
    inte aldrig alltid måste endast bara ikke aldri alltid kun uden uten skal ska älä älkää aina vain soha mindig csak
    tilos nu niciodată întotdeauna trebuie doar fără
    не ни никогда всегда нельзя только лишь без надо нужно обязательно ніколи завжди треба потрібно тільки
    μη μην ποτέ πάντα πρέπει μόνο χωρίς
    لا أبدا أبدًا دائما دائمًا يجب فقط بدون ممنوع تجنب نباید باید همیشه هرگز אל לא תמיד חייב רק בלי אסור
    không đừng chỉ phải luôn cấm jangan harus selalu hanya tanpa wajib dilarang
    """.split()  # noqa: RUF001, SIM905 -- a list of a hundred strings would be harder to read
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_PHRASES: Final = re.compile(
    r"""\b(?:do\ not\b|does\ not\ need|may\ not\b|make\ (?:sure|certain)\b|not\ allowed\b|no\ (?:new|more|other)\b
    |instead\ of\b|rather\ than\b|(?:at|no)\ (?:most|least|more\ than|less\ than|later\ than)\b
    |use\ an?\b|use\ the\b|(?:have|has|need|needs)\ to\b|i\ want\ (?!(?:you\ to|to|an?|some)\b)|hands\ off\b|stay\ (?:away|within|on|under|out)\b
    |off\ limits\b|limit(?:ed)?\ (?:\S+\ ){0,4}to\b|leave\ (?:\S+\ ){1,8}(?:alone\b|as\b)|from\ now\ on\b|ask\ (?:me\ )?(?:first|before)\b
    |(?:under|below|above|within|up\ to|fewer\ than|less\ than|more\ than)\ \d|compatib|every(?:thing|where|body|one)\b
    |in\ (?:English|German|French|Spanish|Italian|Portuguese|Dutch|Russian|Chinese|Japanese|Korean)\b
    |n'\w|tiene[ns]?\ que\b|hay\ que\b|her\ zaman\b|tidak\ boleh\b)
    |^(?:(?:and|also|but|so|ok|okay|please|por\ favor|bitte),?\ )*(?:no\b(?!,|\ (?:problem|idea|worries|thanks?|way)\b)|(?:use|target)\b)
    |,\ not\b""",
    re.IGNORECASE | re.VERBOSE,
)
# For languages without spaces between words, or with endings that carry the meaning.
_SIGNS: Final = re.compile(
    r"""必[须須]|不[要能得许許准可允]|(?<![特分区區類类級级性個个識识辨告離离])[别別](?![的人名墅])|勿|禁止|严禁|嚴禁|只[能用准]|[仅僅]|[务務]必
    |一定|[总總]是|始终|始終|[应應][该該]|避免|永[远遠]|[确確]保|保持|千万|千萬
    |ないで|必ず|ください|のみ|だけ|絶対|べからず|てはいけ|てはなら|なければ|常に|決して|避け
    |반드시|지\ ?(?:마|말)|말\ ?것|금지|항상|절대|만\ 사용|해야|없이|필수|오직|안\ 됩
    |должн|запрещ|избега|(?:^|\s)मत(?:\s|$)|नहीं|हमेशा|केवल|सिर्फ|चाहिए|बिना|ห้าม|อย่า|ต้อง|เท่านั้น|เสมอ|bắt\ buộc|m[ae]y[ıi]n""",  # noqa: RUF001 -- in Turkish it is a letter
    re.IGNORECASE | re.VERBOSE,
)
# Titles of lists of rules that contain none of the words above.
_ANNOUNCED: Final = re.compile(
    r"\b(?:rules?|guidelines?|conventions?|restrictions?|conditions?|limitations?|notes?|style|Regeln?|Vorgaben|Anforderungen"
    r"|Bedingungen|règles?|contraintes?|exigences|reglas|requisitos|restricciones|regras|restrições|regole|requisiti|vincoli"
    r"|regels|vereisten|zasady|wymagania|pravidla|kurallar|правила|требования|ограничения|вимоги)\b"
    r"|规则|規則|要求|约束|約束|规范|注意|ルール|制約|条件|규칙|요구|조건",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"\s*(?:[-*•+–]|\(?\d{1,3}[.)]|[a-z][.)])\s+(?=\S)")
_ABBREVIATED: Final = r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bcf)(?<!\bz\.B)(?<!\bd\.h)(?<!\bbzw)(?<!\bp\.ex)"
_SENTENCE: Final = re.compile(rf"[^\n]*?(?:(?:{_ABBREVIATED}\.|[!?])(?=[\s\"')\]]|$)|[。\uff01\uff1f]|$)", re.MULTILINE)
_LEAST: Final = 3
_CLAUSE: Final = re.compile(r"(?:;|\s[–—-]|,\s(?:and|but|und|aber|et|mais|y|pero))\s")
_FEWEST_CLAUSE_WORDS: Final = 3


def is_rule(sentence: str) -> bool:
    """Return whether a sentence looks like a rule."""
    plain = sentence.replace("\u2019", "'").replace("\u02bc", "'")
    if is_open_question(plain):
        return False
    if not _WORDS.isdisjoint(_WORD.findall(plain.lower())) or _PHRASES.search(plain) is not None:
        return True
    return not plain.isascii() and _SIGNS.search(plain) is not None


@attrs.frozen
class Directive:
    """A sentence of the user that is to survive; if it *is_rule*, its words say so."""

    text: str
    is_rule: bool


def directives_in(text: str) -> Iterator[Directive]:
    """Yield the rules and statements in *text*; an item of a list of rules is preceded by the line that announces it."""
    announced = ""
    # A line that announces a list is a rule of its own only if no item follows.
    waiting: list[Directive] = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or is_output(bare):
            continue
        item = _ITEM.match(line)
        if item is not None and announced:
            waiting = []
            yield Directive(f"{announced} {_plain(line[item.end() :])}", is_rule=True)
            continue
        yield from waiting
        announced = _announced(bare)
        found = list(_directives(bare))
        waiting = found if announced else []
        if not announced:
            yield from found
    yield from waiting


def _directives(line: str) -> Iterator[Directive]:
    for sentence in _sentences(line):
        if is_rule(sentence):
            yield Directive(sentence, is_rule=True)
        elif is_statement(sentence):
            yield Directive(sentence, is_rule=False)
        else:
            # "Fix the bug, and the port stays 7431."
            clauses = _CLAUSE.split(sentence)[1:]
            yield from (Directive(clause, is_rule=False) for clause in clauses if _is_whole(clause))


def _is_whole(clause: str) -> bool:
    return len(clause.split()) >= _FEWEST_CLAUSE_WORDS and is_statement(clause)


def _announced(line: str) -> str:
    """Return the line if it announces a list of rules; else nothing."""
    title = line.strip("#*_ \t")
    is_title = line.startswith("#") or title.endswith((":", "\uff1a"))
    return title if is_title and (_ANNOUNCED.search(title) or is_rule(title)) else ""


def _sentences(line: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(line):
        sentence = _plain(match[0].strip().lstrip("-*•"))
        if len(sentence) >= _LEAST:
            yield sentence


def _plain(text: str) -> str:
    return " ".join(text.split())

"""Recognise lines that a program wrote: tracebacks, messages of compilers, lines of logs.

Users paste them into prompts. They say "must not" and "cannot" as rules do, but nobody means them to hold. Only forms that a
person does not type are listed: an unknown one costs a line, where a form that is too wide would lose a rule.
"""

from __future__ import annotations

import re
from typing import Final

_ERROR_CLASS: Final = r"(?:(?:[\w$]+[./])*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Panic)|(?:\w+\.){2,}[A-Z]\w+)"
_PROGRAM: Final = (
    r"(?:(?:ba|z|da|fi)?sh|make|ld|ls|rm|cp|mv|cat|cd|mkdir|find|grep|sed|tar|sudo|curl|wget|ssh|scp|psql|mysql|docker|kubectl|git"
    r"|pip3?|node|python3?|ruby|java|go|cargo|gcc|g\+\+|clang|cc)"
)
_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE)"
_FAULT: Final = (
    r"(?:not\sfound|no\s(?:such|rule)|[cC]annot|can't|[cC]ould\snot|unable|failed|denied|refused|does\snot\sexist|invalid"
    r"|unexpected|unknown|timed\sout|FATAL|ERROR)\b"
)
_OUTPUT: Final = re.compile(
    rf"""(?:Uncaught\s(?:\(in\spromise\)\s)?|Caused\sby:\s|E\s+)?{_ERROR_CLASS}(?:\s\[\w+\])?(?::\s|:?$)
    |(?:Exception\sin\sthread|Traceback\s\(most|Unhandled\s(?:promise|exception)|Module\snot\sfound:|CONFLICT\s\(|panic:\s
        |Segmentation\sfault\b|Process\sfinished\swith|BUILD\s(?:FAILED|SUCCESS)|goroutine\s\d|thread\s'\S+'\spanicked
        |Error\sresponse\sfrom\sdaemon:|Please\scommit\syour\schanges\sor\sstash|(?:Killed|Aborted)$)
    # A place in a file, as compilers write it.
    |[\w./\\@-]+\.\w+(?::\d+(?::\d+)?:|\(\d+(?:,\d+)?\):?)\s|\d+:\d+\s+(?:error|warning)\s
    |(?:error|warning)(?:\[\w+\]|\s[A-Z]+\d+):\s|(?:fatal|error):\s|warning:\s(?:unused|unreachable|implicit|deprecated|'|`)
    |Error:\s(?:listen|connect|[cC]annot|ENOENT|EACCES|spawn|\w+:)|(?:TS|CS|LNK|MSB|C|E|W)\d{{4}}:\s
    |npm\s(?:ERR!|WARN|error|warn)\s|make(?:\[\d+\])?:\s(?:\*{{3}}|Leaving|Entering|Nothing)
    # A program that names itself before it complains.
    |{_PROGRAM}(?:\[\d+\])?:\s.*{_FAULT}
    # Logs: a level in brackets or capitals, or the time.
    |\[(?:{_LEVEL}|error|warn|info|debug)\]\s|{_LEVEL}(?::\s{{2,}}|:[\w.]+:|\s+\d{{3,}}\b|\s+[\w$]+(?:\.[\w$]+)+\b|:\sCould\snot\s)
    |\[?\d{{4}}-\d\d-\d\d[T\ ]\d\d:\d\d|[A-Z][a-z]{{2}}\s+\d+\s\d\d:\d\d:\d\d\s|\d\d:\d\d:\d\d[.,\s]
    |(?:GET|POST|PUT|PATCH|DELETE|HEAD)\s/\S*\s\d{{3}}\b|HTTP/\d(?:\.\d)?\s\d{{3}}\b
    # Test runs.
    |(?:FAILED|PASSED|ERROR|FAIL|PASS)\s\S+(?:::\w|\.\w+(?:\s|$))|---\s(?:FAIL|PASS):|(?:not\s)?ok\s\d+\s-\s
    |E\s{{3,}}\S|at\s\S+\s?\(""",
    re.VERBOSE,
)
_SYSTEM_FAULT: Final = re.compile(
    r":\s(?:No such file or directory|Permission denied|Connection refused|Connection reset by peer|Broken pipe|command not found)$"
    r"|\(core dumped\)$"
)


def is_output(line: str) -> bool:
    """Return whether a line is a message of a program, and not what a person has typed."""
    return _OUTPUT.match(line) is not None or _SYSTEM_FAULT.search(line) is not None

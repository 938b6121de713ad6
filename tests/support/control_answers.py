"""Checks of what a server of the control protocol sends."""

from __future__ import annotations

import json

from engine.control.protocol.error_kinds import ERROR_KINDS
from engine.control.protocol.server_side import Incoming

CODES = {row.code for row in ERROR_KINDS.values()}


def check_answers(incoming: Incoming) -> None:
    """Assert that what is sent at once are errors of the table, or notifications."""
    for text in incoming.sends:
        answers = json.loads(text)
        for answer in answers if isinstance(answers, list) else [answers]:
            assert answer["jsonrpc"] == "2.0"
            if "method" not in answer:
                assert answer["error"]["code"] in CODES
                assert answer["error"]["data"]["kind"] in ERROR_KINDS

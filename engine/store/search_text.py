"""What full-text search has in common in all databases. Pure."""

from __future__ import annotations

from typing import Final

# They enclose each match in a snippet. Private-use characters, since ordinary text does not contain them.
MATCH_MARKS: Final = ("\ue000", "\ue001")
# Scripts that are written without spaces: Han, kana, Thai, Lao, Khmer, Myanmar.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)

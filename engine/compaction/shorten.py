"""Long texts cut in the middle."""

from __future__ import annotations


def shortened(text: str, most: int) -> str:
    """Return *text*, or its beginning and its end, which has the errors."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"

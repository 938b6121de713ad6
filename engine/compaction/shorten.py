"""Truncate long texts in the middle."""

from __future__ import annotations


def truncate_middle(text: str, most: int) -> str:
    """Return *text*, or its beginning and its end, where errors usually are."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"

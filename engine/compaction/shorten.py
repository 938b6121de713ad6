"""Truncate long texts in the middle."""

from __future__ import annotations


def truncate_middle(text: str, most: int, note: str = "[… {:,} characters left out …]") -> str:
    """Return *text*, or its beginning and its end, where errors usually are; *note* goes between them, with a count."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n{note.format(len(text) - 2 * half)}\n{text[-half:]}"

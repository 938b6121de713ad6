"""What was spent, for people."""

from __future__ import annotations


def format_cost(cost: float) -> str:
    """Return a cost in dollars, with as many digits as are significant; empty if nothing was spent."""
    if not cost:
        return ""
    return f"${cost:,.2f}" if cost >= 0.095 else f"${cost:.4f}"

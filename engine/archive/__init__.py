"""Sessions out of their store: forked, exported, shared, and taken in again."""

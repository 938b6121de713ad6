"""What went wrong, in words, and what to do: one table for all commands. The commands and the turn view import it."""

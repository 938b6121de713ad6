"""A question for permission at a terminal, for every command that asks one: pure, so `cli.turn` and the chat share it."""

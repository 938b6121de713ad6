"""One turn on a terminal: its events as text, the user's lines and answers, the summary."""

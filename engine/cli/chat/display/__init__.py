"""How the chat is shown: events as lines, the live region, styles, the terminal's mode. It knows no machine."""

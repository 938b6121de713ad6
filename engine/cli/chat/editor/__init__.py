"""The line editor of the chat: keys, text with a cursor, rows on the screen. Pure: it knows no terminal and no clock."""

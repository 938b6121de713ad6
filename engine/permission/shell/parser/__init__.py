"""The parser of bash's grammar; it imports nothing but itself."""

"""Authentication: keys, passwords, AWS signatures, Google tokens."""

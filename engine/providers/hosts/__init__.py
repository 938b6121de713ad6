"""The table of hosts: addresses, keys, wire formats and quirks."""

"""Shell completion: the scripts, which `scripts/command_files.py` writes, and the command that prints them."""

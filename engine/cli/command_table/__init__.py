"""Every command as data: the parser, the help, shell completion, man pages and the reference are made from it.

A command has a row in `command_list`, a specification in one of the modules `*_commands`, and a module of its own above
this folder, which parses its arguments with that specification. A new flag is a row here; nothing else lists flags.
"""

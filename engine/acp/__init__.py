"""The Agent Client Protocol, version 1: sessions for an editor that has started the engine. Only the command line imports it."""

"""Hosts of models: a pure encoder and decoder per wire format, and one thin HTTP shell.

`registry.resolve` is the door. Nothing here is imported before a model is used.
"""

"""Grants."""

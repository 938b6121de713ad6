"""Cohere."""

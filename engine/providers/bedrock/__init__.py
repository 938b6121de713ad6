"""Bedrock."""

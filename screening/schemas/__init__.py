"""Frozen types of the documents that the tool writes and reads back."""

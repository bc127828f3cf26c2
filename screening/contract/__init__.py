"""The form that a table must have, and the words for its violations."""

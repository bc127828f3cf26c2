"""A model's directory, arrays, and publishing whole or not at all."""

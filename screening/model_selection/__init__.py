"""Choosing and judging a model: folds, held-out scores, search, training, comparing."""

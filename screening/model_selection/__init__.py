"""Choosing a model and judging it: folds, held-out scores, search, training, comparing, another threshold."""

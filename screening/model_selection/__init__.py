"""Judging a recipe on rows it has not seen: folds, criteria, held-out scores."""

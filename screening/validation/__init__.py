"""Judging a recipe on rows it has not seen: folds, criteria, out-of-fold scores."""

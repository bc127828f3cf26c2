"""Dual problems and their decision functions, as scikit-learn estimators.

What a recipe may say of them stands here, known without reading scikit-learn.
"""

# There is no stopping by test rows: a score that the machine was chosen by is no test.
STOPS = ("fixed", "inner")
SCHEME_NAMES = ("one_vs_rest", "one_vs_one", "crammer_singer", "simplified")

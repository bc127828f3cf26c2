"""scikit-learn's bases of the machines; plain ones in a process that is nothing but a `screen` command.

A command fits machines to rows of its own encoder and keeps their arrays: no pipeline, search or notebook
sees them, and scikit-learn's base takes longer to import than all folds of a ward to fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from screening import machines

if TYPE_CHECKING or not machines.only_here:
    from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
else:
    from screening.machines.plain import (
        BaseEstimator,
        ClassifierMixin,
        OutlierMixin,
        check_is_fitted,
        validate_data,
    )

__all__ = ["BaseEstimator", "ClassifierMixin", "OutlierMixin", "check_is_fitted", "validate_data"]

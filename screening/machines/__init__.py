"""Dual problems, trees and linear models as scikit-learn estimators."""

"""Dual problems and their decision functions, as scikit-learn estimators."""

from screening.machines.baselines import Logistic
from screening.machines.multi_class import MultiClassSVM
from screening.machines.one_class import OneClassSVM
from screening.machines.two_class import TwoClassSVM

__all__ = ["Logistic", "MultiClassSVM", "OneClassSVM", "TwoClassSVM"]

"""The conformal factor c(x) over the two columns that rank best alone."""

from __future__ import annotations

import numpy as np

from screening.estimators.ensembles import FoldEnsemble
from screening.metrics.ranking import area_under_roc
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions
from screening.recipes.encoders import RowEncoder
from screening.schemas.model import FactorMap

# Values of each column at which c is computed.
_N_VALUES = 21
# Share of the column's values below the first and above the last of them.
_TAIL = 0.02
# Smallest c, whose logarithm would not be finite.
_TINY = 1e-300


def factor_map(study: Study, held_out: HeldOutDecisions) -> FactorMap | None:
    """Return log c over two columns, the others at their typical values.

    It is the mean over the machines of the folds, relative to its largest value. With
    several classes it is the factor of the first watched one, where each has its own.

    Parameters
    ----------
    study : Study
    held_out : HeldOutDecisions

    Returns
    -------
    FactorMap or None
        None for a method without a factor, or one that declined it, and if fewer than
        two columns of numbers vary.
    """
    ensemble = held_out.ensemble
    if not isinstance(ensemble, FoldEnsemble) or not ensemble.kernel_machines:
        return None
    machines = ensemble.kernel_machines
    if len(machines[0].passes_) < 2 or ensemble.bundles is not None:
        return None
    names = _strongest_columns(study)
    if len(names) < 2:
        return None
    axes = []
    for name in names:
        values = study.sample.values[name].astype(float)
        low, high = np.nanquantile(values, [_TAIL, 1 - _TAIL])
        axes.append(np.linspace(low, high, _N_VALUES))
    first, second = np.meshgrid(*axes, indexing="ij")
    on_grid = dict(zip(names, [first.ravel(), second.ravel()], strict=True))
    x = _typical_rows(held_out.encoder, on_grid)
    column = study.task.watched_columns[0]
    logs = []
    for machine in machines:
        c = machine.factor_at(x)
        own = c[:, column % c.shape[1]]
        logs.append(np.log(np.maximum(own, _TINY)))
    mean = np.mean(logs, axis=0).reshape(first.shape)
    mean -= mean.max()
    return FactorMap(
        columns=names,
        values=[axis.tolist() for axis in axes],
        log_c=mean.round(4).tolist(),
    )


def _typical_rows(encoder: RowEncoder, values: dict[str, np.ndarray]) -> np.ndarray:
    """Return encoded rows that have these values, and typical ones elsewhere."""
    n_rows = len(next(iter(values.values())))
    columns = {}
    for name, median in encoder.medians.items():
        dtype = float if isinstance(median, float) else object
        columns[name] = np.full(n_rows, median, dtype=dtype)
    return encoder.transform(columns | values)


def _strongest_columns(study: Study) -> list[str]:
    """Return the two columns of numbers that rank the first watched class best alone.

    Fewer if fewer vary, or if a class has no rows.
    """
    sample = study.sample
    positive = study.watched[:, 0]
    areas = {}
    features = sample.contract.features
    for name in sample.names:
        if features[name].type != "number":
            continue
        values = sample.values[name].astype(float)
        is_known = np.isfinite(values)
        cases = positive[is_known]
        spread = 0.0
        if is_known.any():
            low, high = np.quantile(values[is_known], [_TAIL, 1 - _TAIL])
            spread = high - low
        if spread > 0 and cases.any() and not cases.all():
            areas[name] = abs(area_under_roc(values[is_known], cases) - 0.5)
    return sorted(areas, key=lambda name: -areas[name])[:2]

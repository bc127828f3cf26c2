"""Export a night for other systems: a module for each format; images in `imaging`.

Each module has `write(flagged, ...)`. Its keyword arguments are the options of `screen
export` for the form; those without a default are required. `out` is a path where
nothing exists yet, and `force` allows replacing. What it returns, if anything, is
printed as the place.
"""

from pkgutil import iter_modules

from screening.registry import EXPORTS

_OWN = {module.name: f"{__name__}.{module.name}" for module in iter_modules(__path__)}
# The module of each form, by the name of the form.
FORMS = dict(sorted((_OWN | EXPORTS).items()))

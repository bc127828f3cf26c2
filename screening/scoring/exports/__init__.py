"""What other systems are given of a night: a module a form, called as it is; those of images in `imaging`.

Each has `write(flagged, ...)`. Its keyword arguments are the options of `screen export` that the form takes,
those without a default the ones it needs: `out` is a path where nothing lies yet, `force` lets it replace.
What it returns, if anything, is told as the place.
"""

from pkgutil import iter_modules

from screening.registry import EXPORTS

_OWN = {module.name: f"{__name__}.{module.name}" for module in iter_modules(__path__)}
FORMS = dict(sorted((_OWN | EXPORTS).items()))
"""The module of each form, by the name of the form."""

"""What other systems are given of a night: a module a form, called as the form is.

Each has `write(flagged, ...)`. Its keyword arguments are the options of `screen export` that the form takes,
those without a default the ones it needs: `out` is a path where nothing lies yet, `force` lets it replace.
What it returns, if anything, is told as the place.
"""

from pkgutil import iter_modules

FORMS = tuple(module.name.replace("_", "-") for module in iter_modules(__path__))

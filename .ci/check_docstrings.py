"""Check the docstrings of everything public with numpydoc.

    python .ci/check_docstrings.py

Prints what it finds, one violation a line, and exits with 1 if there is any.
"""

import importlib
import inspect
import sys

from numpydoc.validate import validate

PACKAGE = "sklearn_ebm"
MODULES = [
    f"{PACKAGE}{module}"
    for module in (
        "",
        ".factors",
        ".factors.plotting",
        ".likelihood",
        ".samplers",
        ".plotting",
        ".monitoring",
        ".layered",
        ".units",
    )
]
# RT02 forbids the names that scikit-learn gives to what its methods return.
NOT_ASKED_FOR = {"ES01", "SA01", "SA04", "RT02"}
# A page for every method would be noise; classes and functions have examples.
NOT_ASKED_OF_METHODS = {"EX01"}


def public_names(module):
    """Names that a module offers: its __all__, or else what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def public_methods(cls):
    """Names of the public methods and properties that this package defines."""
    found = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != PACKAGE:
            continue
        for name, value in vars(base).items():
            if name.startswith("_"):
                continue
            if inspect.isroutine(value) or isinstance(value, property):
                found.setdefault(name)
    return list(found)


def public_objects():
    """Yield dotted names of all that is to be checked, and what is not asked there."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            yield f"{module_name}.{name}", NOT_ASKED_FOR
            value = getattr(module, name)
            if inspect.isclass(value):
                for method in public_methods(value):
                    of_methods = NOT_ASKED_FOR | NOT_ASKED_OF_METHODS
                    yield f"{module_name}.{name}.{method}", of_methods


def main():
    """Print violations; return how the process should exit."""
    n_objects = n_violations = 0
    for name, not_asked in public_objects():
        n_objects += 1
        for code, message in validate(name)["errors"]:
            if code not in not_asked:
                n_violations += 1
                print(f"{name}: {code} {message}")
    print(f"{n_objects} docstrings checked, {n_violations} violations.")
    return int(n_violations > 0)


if __name__ == "__main__":
    sys.exit(main())

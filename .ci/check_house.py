"""Check that doc/house.rst names every file, and that imports go down, in no circle.

    python .ci/check_house.py

Files of more than LONG lines are named under "Long files", too, and no others.

Prints what it finds, one fault a line, and exits with 1 if there is any.
"""

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parent.parent
PACKAGE = HERE / "sklearn_ebm"
SOURCES = ".py", ".pyx", ".h"
LONG = 500
IMPORT = re.compile(r"^\s*from (\.+)([\w.]*) c?import ([^(#\n]*|\([^)]*\))", re.M)


def floors():
    """Patterns of the files of every floor, from the top down.

    A floor is a line of the page's tree: a file, several, or a folder with those that
    the lines below name.
    """
    page = (HERE / "doc" / "house.rst").read_text()
    tree = page.split("sklearn_ebm/\n", 1)[1].split("\n   tests/", 1)[0]
    found = []
    for line in tree.splitlines():
        names = re.findall(r"[\w*]+\.(?:pyx|py|h)\b", line)
        if line.startswith("     ") and line[5] != " ":
            folder = re.match(r"\s*(\w+)/", line)
            found.append([f"{folder[1]}/__init__.py"] if folder else names)
        elif found and "/" in found[-1][0]:
            folder = found[-1][0].split("/")[0]
            found[-1] += [f"{folder}/{name}" for name in names]
    return found


def faults_of_length():
    """What is wrong with the page's list of long files, in words."""
    page = (HERE / "doc" / "house.rst").read_text()
    text = page.split("\nLong files\n", 1)[1]
    named = set(re.findall(r"``([\w.]+\.(?:pyx|py|h))``", text))
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in SOURCES]
    long = {path.name for path in sources if len(path.read_text().splitlines()) > LONG}
    for name in sorted(long - named):
        yield f"{name} has more than {LONG} lines: see 'Long files' in doc/house.rst"
    for name in sorted(named - long):
        yield f"{name} has no more than {LONG} lines, but doc/house.rst says so"


def imported(path):
    """Modules of the package that a file imports, as paths without suffix."""
    for dots, module, names in IMPORT.findall(path.read_text()):
        base = path.parent
        for _ in dots[1:]:
            base = base.parent
        base = base.joinpath(*module.split(".")) if module else base
        if not base.is_dir():
            yield base
            continue
        for name in re.findall(r"\w+", names):
            inner = base / name
            known = any(inner.with_suffix(suffix).exists() for suffix in SOURCES)
            yield inner if known else base / "__init__"


def circle(graph):
    """Files that import each other in a circle, or an empty list."""
    done = set()

    def follow(path, route):
        if path in route:
            return route[route.index(path) :]
        if path in done:
            return []
        for target in graph.get(path, ()):
            if found := follow(target, [*route, path]):
                return found
        done.add(path)
        return []

    for path in graph:
        if found := follow(path, []):
            return found
    return []


def main():
    """Print all faults."""
    tower, faults, graph = floors(), list(faults_of_length()), {}

    def floor_of(path):
        name = path.relative_to(PACKAGE).as_posix()
        for number, patterns in enumerate(tower):
            if any(fnmatch(name, pattern) for pattern in patterns):
                return number
        return None

    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix not in SOURCES:
            continue
        name, own = path.relative_to(HERE), floor_of(path)
        if own is None:
            faults.append(f"{name} is not named in doc/house.rst")
            continue
        module = path.with_suffix("")
        for target in imported(path):
            if target != module:  # (A kernel may cimport its own .pxd.)
                graph.setdefault(module, set()).add(target)
            suffix = ".pyx" if target.with_suffix(".pyx").exists() else ".py"
            below = floor_of(target.with_suffix(suffix))
            if below is not None and below < own:
                faults.append(f"{name} imports from the floor above, {target.name}")
    if found := circle(graph):
        names = ", ".join(path.name for path in found)
        faults.append(f"{names} import each other in a circle")
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(tower)} floors checked, {len(faults)} faults.")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

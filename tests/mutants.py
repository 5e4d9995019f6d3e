"""What tests/mutation.py does with its list: copies, builds, runs, reports."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/test_kernels.py",
    "tests/test_trainer.py",
    "tests/test_paths.py",
    "tests/test_samplers.py",
    "tests/test_tempering.py",
    "tests/test_exactness.py",
    "tests/test_rbm_classifier.py",
    "tests/test_network.py",
    "tests/test_upper_rbm.py",
    "tests/test_dbn_classifier.py",
    "tests/test_mean_field.py",
    "tests/test_dbm.py",
    "tests/test_dbm_use.py",
    "tests/test_dbm_training.py",
    "tests/test_dbm_fit.py",
    "tests/test_unit_trainer.py",
    "tests/test_unit_models.py",
    "tests/test_ica_pass.py",
    "tests/test_factor_analysis.py",
)
# Extensions to build again where a change of another file than their own concerns them.
LISTS = ["_simd", "_panels", "_rows", "_gibbs", "_trainer", "_ais"]
REBUILD = {
    "_minibatches.pxd": ["_trainer", "_unit_trainer", "_classifier_trainer"],
    "_minibatches.pyx": [
        "_minibatches",
        "_trainer",
        "_unit_trainer",
        "_classifier_trainer",
    ],
    "_rows.pxd": ["_trainer", "_classifier_trainer"],
    "_vectors.pxd": ["_excess", "_classifier_trainer", "_class_scores"],
    "_simd.h": LISTS,
    "../setup.py": LISTS,
}


def extensions_of(file):
    """Extensions to build again when a file changes."""
    path = Path(file)
    if file in REBUILD:
        return REBUILD[file]
    if path.suffix == ".pyx":
        return [path.stem]
    if path.match("_leaves*.h"):
        return ["_simd"]
    if path.suffix == ".py":
        return []
    raise ValueError(f"REBUILD does not say what {file} makes.")


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    also: tuple = ()  # more extensions to build again
    tests: tuple = TESTS  # files of tests to run


def copy_sources(to):
    """Everything but what has been built."""
    built = ".git", "build", "dist", "*.so", "*.pyd", "*.c", "__pycache__", ".*_cache"
    shutil.copytree(ROOT, to, ignore=shutil.ignore_patterns(*built))
    text = (to / "setup.py").read_text()
    (to / "setup.py").write_text(text.replace('"-O3"', '"-O1"'))


def build(tree, kernels=None):
    """Build a tree, or only some of its kernels; whether that works."""
    if kernels is not None:
        text = (tree / "setup.py").read_text()
        text, n = re.subn(r"(?ms)^KERNELS = \[.*?\]", f"KERNELS = {kernels!r}", text)
        if n != 1:
            sys.exit("setup.py has no line that starts with 'KERNELS ='")
        (tree / "setup.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace", "--force"],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\nThe build failed.")


def run_tests(tree, tests, *options, timeout=None):
    """pytest's exit status (None: it did not come to an end) and failed tests."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", *tests]
    command += ["-m", "", "-p", "no:cacheprovider", *options]
    try:
        done = subprocess.run(
            command, cwd=tree, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return None, []
    found = re.findall(r"(?m)^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout)
    return done.returncode, found


def check_texts(mutations):
    """Each text that is to be replaced occurs exactly once."""
    wrong = False
    for mutation in mutations:
        text = (ROOT / "sklearn_ebm" / mutation.file).read_text()
        n = text.count(mutation.old)
        if n != 1:
            print(f"{mutation.file} has {n} times: {mutation.old!r}")
            wrong = True
        extensions_of(mutation.file)
    if wrong:
        sys.exit("The code has changed: bring tests/mutation.py up to date.")


def try_mutation(mutation, pristine, tree, deselected, timeout):
    """What caught a mutation, or None."""
    shutil.copytree(pristine, tree)
    path = tree / "sklearn_ebm" / mutation.file
    path.write_text(path.read_text().replace(mutation.old, mutation.new))
    kernels = [*extensions_of(mutation.file), *mutation.also]
    if kernels:
        build(tree, kernels)
    status, failed = run_tests(tree, mutation.tests, "-x", *deselected, timeout=timeout)
    shutil.rmtree(tree)
    if status == 0:
        return None
    if status == 1 and failed:
        return failed[0]
    if status is None or status < 0 or status > 5:
        return "the tests hang" if status is None else "the tests crash"
    sys.exit(f"pytest ended with status {status}: {failed}")


def main(all_mutations, description):
    """Do what the command line asks of mutation.py; the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("words", nargs="*", help="words in the names of mutations")
    parser.add_argument("--list", action="store_true", help="print names and stop")
    parser.add_argument("--check", action="store_true", help="check texts and stop")
    arguments = parser.parse_args()
    mutations = [
        mutation
        for mutation in all_mutations
        if not arguments.words or any(w in mutation.name for w in arguments.words)
    ]
    if arguments.list:
        print("\n".join(mutation.name for mutation in mutations))
        return 0
    check_texts(mutations)
    if arguments.check:
        print(f"{len(mutations)} mutations checked, all texts are there.")
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        pristine, tree = Path(folder, "pristine"), Path(folder, "mutant")
        copy_sources(pristine)
        build(pristine)
        begin = time.perf_counter()
        tests = {test for mutation in mutations for test in mutation.tests}
        status, failed = run_tests(pristine, sorted(tests))
        timeout = 5 * (time.perf_counter() - begin) + 60
        if status not in (0, 1):
            sys.exit(f"The tests do not run: pytest ended with status {status}.")
        for test in failed:
            print(f"fails without any mutation, left out: {test}")
        deselected = [f"--deselect={test}" for test in failed]
        for mutation in mutations:
            begin = time.perf_counter()
            catcher = try_mutation(mutation, pristine, tree, deselected, timeout)
            seconds = time.perf_counter() - begin
            survivors += catcher is None
            verdict = f"caught by {catcher}" if catcher else "NOT caught"
            print(f"{mutation.name}: {verdict} ({seconds:.0f} s)", flush=True)
    print(f"{len(mutations) - survivors} of {len(mutations)} mutations caught.")
    return 1 if survivors else 0

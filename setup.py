"""The compiled kernels; everything else about the package is in pyproject.toml."""

import glob
import os
import sys
import tempfile

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError, LinkError

KERNELS = [
    "_simd",
    "_openmp",
    "_panels",
    "_rows",
    "_gibbs",
    "_minibatches",
    "_trainer",
    "_scores",
    "_ais",
    "_products",
    "_mean_field",
    "_passes",
    "_units",
    "_jumps",
    "_excess",
    "_sparse_states",
    "_unit_trainer",
    "_sparse_codes",
    "_classifier_trainer",
    "_class_scores",
    "_ica",
    "_factor_scores",
]
# What Cython generates for all of them (memoryviews) is compiled once, here.
SHARED = "sklearn_ebm._cyutility"
HEADERS = glob.glob("sklearn_ebm/*.h")
# For tests: bounds-checked kernels, kernels without OpenMP.
CHECKED = bool(os.environ.get("SKLEARN_EBM_CHECKED"))
SERIAL = bool(os.environ.get("SKLEARN_EBM_SERIAL"))

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "cdivision": True,
    "freethreading_compatible": True,
}


class BuildKernels(build_ext):
    """Finds out how this compiler spells its flags, and whether there is one."""

    def build_extensions(self):
        msvc = self.compiler.compiler_type == "msvc"
        # Contracted or reordered sums would differ between processors.
        # Python asks for debugging symbols: nine tenths of the installed size.
        # (Builds for tests are used once: most of their time is that of compiling.)
        level = "1" if CHECKED or SERIAL else "3"
        flags = ["/O2"] if msvc else [f"-O{level}", "-g0", "-ffp-contract=off"]
        if not self._compiles([], []):
            sys.exit(
                "sklearn_ebm is compiled when it is installed and no working C "
                "compiler was found: install one (gcc, clang or MSVC) and try again."
            )
        openmp = [] if SERIAL else self._openmp_flags(msvc)
        for extension in self.extensions:
            extension.extra_compile_args = flags + openmp
            extension.extra_link_args = [] if msvc else openmp
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()

    def _openmp_flags(self, msvc):
        flags = ["/openmp"] if msvc else ["-fopenmp"]
        if self._compiles(flags, [] if msvc else flags, "#include <omp.h>"):
            return flags
        print("warning: this compiler has no OpenMP; the kernels will be serial.")
        return []

    def _compiles(self, compile_args, link_args, include=""):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "probe.c")
            with open(source, "w") as file:
                file.write(f"{include}\nint main(void) {{ return 0; }}\n")
            try:
                objects = self.compiler.compile(
                    [source], output_dir=folder, extra_postargs=compile_args
                )
                self.compiler.link_executable(
                    objects, os.path.join(folder, "probe"), extra_postargs=link_args
                )
            except (BaseError, CompileError, LinkError, OSError) as error:
                print(f"probe failed: {error}")
                return False
        return True


setup(
    ext_modules=cythonize(
        [
            Extension(
                f"sklearn_ebm.{name}", [f"sklearn_ebm/{name}.pyx"], depends=HEADERS
            )
            for name in KERNELS
        ]
        + [Extension(SHARED, ["sklearn_ebm/_cyutility.c"])],
        shared_utility_qualified_name=SHARED,
        compiler_directives=DIRECTIVES,
    ),
    cmdclass={"build_ext": BuildKernels},
)

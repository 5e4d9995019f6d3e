"""Break the package on purpose, one way at a time, and see that a test notices.

    python tests/mutation.py                 every mutation: a few hours
    python tests/mutation.py momentum tie    those with such a word in their name
    python tests/mutation.py --list          their names
    python tests/mutation.py --check         only that their texts are in the code

Copies the source tree to a temporary folder and builds it there, with little
optimisation to save time, and runs the files of tests that the chosen mutations name
(or else those of TESTS), slow tests and all: several minutes before the first
mutation. For each mutation a copy of that has one text of one source file replaced by
another, only the extensions that it concerns are built again, and its files of tests
run until the first failure. Prints which test caught each mutation. The exit status is
1 if one survives.

A text that is to be replaced must occur exactly once; an edit of the code that
changes one has to change it here too. Tests that fail without any mutation are
named first and left out.

Not a test of pytest's; needs a C compiler and what the tests need.
"""

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
    "_gibbs.pxd": ["_trainer", "_unit_trainer", "_classifier"],
    "_minibatches.pyx": ["_minibatches", "_trainer", "_unit_trainer", "_classifier"],
    "_rows.pxd": ["_trainer", "_classifier"],
    "_vectors.pxd": ["_excess", "_classifier", "_class_scores"],
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


MUTATIONS = [
    # ---- Sums of pairs ----
    Mutation(
        "a pair is taken for its first unit",
        "_leaves_lists.h",
        "? first_pair + unit / 2",
        "? unit",
    ),
    Mutation(
        "a unit is taken for its neighbour",
        "_leaves_lists.h",
        ": unit + (~word >> k & 1);",
        ": unit + (word >> k & 1);",
    ),
    Mutation(
        "sums of pairs are not brought up to date",
        "_trainer.pyx",
        "self.up.weights.sum_pairs(start, stop)",
        "pass",
    ),
    # ---- Phases and their scales ----
    Mutation(
        "negative phase of the weights added",
        "_trainer.pyx",
        "subset_sums(chains, m, work.chain_share,",
        "subset_sums(chains, m, -work.chain_share,",
    ),
    Mutation(
        "negative phase of the visible biases added",
        "_trainer.pyx",
        "work.chain_share, change,",
        "-work.chain_share, change,",
    ),
    Mutation(
        "negative phase of the visible biases added where the weights are concerned",
        "_trainer.pyx",
        "4 * (g - n_groups), work.chain_share,",
        "4 * (g - n_groups), -work.chain_share,",
    ),
    Mutation(
        "chains averaged over the number of rows",
        "_trainer.pyx",
        "= 1.0 / batch_rows, -1.0 / batch_chains",
        "= 1.0 / batch_rows, -1.0 / batch_rows",
    ),
    Mutation(
        "short batch scaled by batch_size",
        "_trainer.pyx",
        "= 1.0 / batch_rows, -1.0 / batch_chains",
        "= 1.0 / self.batch_size, -1.0 / batch_chains",
    ),
    Mutation(
        "real values without their share in the visible biases",
        "_trainer.pyx",
        "+= x * work.data_share",
        "+= x",
    ),
    Mutation(
        "rows of which a feature is on in two counted once",
        "_leaves_lists.h",
        "0x4332322132212110u",
        "0x4332322132211110u",
    ),
    Mutation(
        "features of four rows counted without the last",
        "_leaves_lists.h",
        "for (int k = 0; k < 4; k++)\n            count",
        "for (int k = 0; k < 3; k++)\n            count",
    ),
    Mutation(
        "offsets move before the visible biases are through",
        "_trainer.pyx",
        "        self._project(work, thread, team)",
        "        memcpy(<char *> self.update.hidden_offset, self.next_offset, "
        "self.up.n_panels * PANEL_BYTES)\n        self._project(work, thread, team)",
    ),
    Mutation(
        "CD with as many chains in a short batch as in others",
        "_trainer.pyx",
        "batch_chains = self.n_chains if self.persistent else batch_rows",
        "batch_chains = self.n_chains",
    ),
    Mutation(
        "each pass starts the gradient anew",
        "_trainer.pyx",
        "u.first, u.last = work.first,",
        "u.first, u.last = True,",
    ),
    Mutation(
        "each pass starts the sums of features anew",
        "_leaves_update.h",
        "double x = first ? 0 : sums[i]",
        "double x = 0",
    ),
    # ---- Conditionals ----
    Mutation(
        "conditionals without their biases",
        "_leaves_sums.h",
        ": bias + r * bias_stride + p * PANEL_BYTES))[q];",
        ": bias + r * bias_stride + p * PANEL_BYTES))[q] * (REAL)!!start;",
    ),
    Mutation(
        "all panels with the biases of the first",
        "_gibbs.pyx",
        "self.bias + start * PANEL_BYTES, 0, out, stride",
        "self.bias, 0, out, stride",
    ),
    Mutation(
        "step of the visible biases on the hidden ones",
        "_trainer.pyx",
        "self.visible_update.bias = self.down.bias",
        "self.visible_update.bias = self.up.bias",
    ),
    Mutation(
        "real values taken for ones",
        "_leaves_sums.h",
        "sums[p][q] = PLUS_PRODUCT(sums[p][q], x, *value);",
        "sums[p][q] += x;",
    ),
    Mutation(
        "sums over dense rows of another feature (AVX-512)",
        "_leaves_update.h",
        "sums[p][q] = ahead[i % AHEAD][p][q]",
        "sums[p][q] = ahead[0][p][q]",
    ),
    Mutation(
        "real values taken for ones in the visible biases",
        "_leaves_update.h",
        "x += value[k] * rows[index[k]];",
        "x += rows[index[k]];",
    ),
    Mutation(
        "transposed weights not brought up to date",
        "_trainer.pyx",
        "self.down = Layer(self.up.weights, intercept_visible, turned=True)",
        "self.down = Layer(Panels.from_rows(components), intercept_visible)",
    ),
    Mutation(
        "all panels turned round from the first",
        "_gibbs.pyx",
        "self.weights.data + p * self.leaves.lanes * PANEL_BYTES",
        "self.weights.data + start * self.leaves.lanes * PANEL_BYTES",
    ),
    Mutation(
        "sums over words of three units",
        "_leaves_sums.h",
        "(x[k] >> 4 * g & 15)",
        "(x[k] >> 4 * g & 7)",
    ),
    Mutation(
        "rows of words beyond the last few left out",
        "_leaves_sums.h",
        "for (; k < n; k++) NAME(add_words)(words, stride, at + k, table, sums, 1);",
        "",
    ),
    Mutation(
        "logistic without its lower clamp",
        "_leaves_units.h",
        "return SELECT(x < low, SPLAT(0), z);",
        "return z;",
    ),
    Mutation(
        "logistic clamped too early",
        "_leaves.h",
        "#define EXP_LIMIT 87.0f",
        "#define EXP_LIMIT 12.0f",
    ),
    Mutation(
        "chains go on from stale hidden states",
        "_trainer.pyx",
        "            self.hidden.list_row(work.first_chain + r)",
        "            if draw.step == self.step:\n"
        "                self.hidden.list_row(work.first_chain + r)",
    ),
    Mutation(
        "all rows go by words if one does",
        "_leaves_sums.h",
        "if (rows->length[r] > most) by_words[n++] = (int32_t)r;",
        "if (rows->length[r] > most || most < INT32_MAX) by_words[n++] = (int32_t)r;",
    ),
    Mutation(
        "words when not enough is saved",
        "_simd.h",
        "saved > 5.0 * rows->n_units",
        "saved > 4.5 * rows->n_units",
    ),
    Mutation(
        "blocks of chains begin at the first row's words",
        "_gibbs.pyx",
        "rows.words += r * self.n_words",
        "rows.words += 0 * r",
    ),
    # ---- Random bits ----
    Mutation(
        "counter ignores the row",
        "_leaves_units.h",
        "UV x1 = (state >> shift) + row0;",
        "UV x1 = zero + row0;",
    ),
    Mutation(
        "counter ignores the pass",
        "_trainer.pyx",
        "draw.key, draw.row0 = self.key, <uint32_t> at",
        "draw.key, draw.row0 = self.key, 0",
    ),
    Mutation(
        "counter ignores the block of a half-sweep",
        "_gibbs.pyx",
        "<uint32_t> first, self.draw.purpose,",
        "0, self.draw.purpose,",
    ),
    Mutation(
        "counter ignores the step",
        "_simd.h",
        "#define COUNTER_STEP(step) ((uint32_t)(step))",
        "#define COUNTER_STEP(step) ((uint32_t)(step) & 0u)",
    ),
    Mutation(
        "counter ignores the high bits of the step",
        "_simd.h",
        "((uint32_t)((step) >> 32) & 0xFFFFFFu)",
        "((uint32_t)((step) >> 32) & 0u)",
    ),
    Mutation(
        "counter ignores the purpose",
        "_simd.h",
        "(((uint32_t)(purpose) << 24)",
        "(((uint32_t)(purpose) << 24 & 0u)",
    ),
    Mutation(
        "hidden and visible units share their bits",
        "_trainer.pyx",
        "draw.purpose = DRAW_HIDDEN\n        if last_sweep:",
        "draw.purpose = DRAW_VISIBLE\n        if last_sweep:",
    ),
    Mutation(
        "sweeps of a minibatch share their bits",
        "_trainer.pyx",
        "draw.step = self.step + sweep",
        "draw.step = self.step",
    ),
    Mutation(
        "minibatches share some of their bits",
        "_trainer.pyx",
        "self.step += self.n_gibbs_steps",
        "self.step += 1",
    ),
    Mutation(
        "steps of chains share their bits",
        "_gibbs.pyx",
        "draw.step += 1",
        "draw.step += 0",
    ),
    Mutation(
        "chains of a block share their bits with another block's",
        "_gibbs.pyx",
        "draw.row0 += <uint32_t> first",
        "draw.row0 += 0",
    ),
    Mutation(
        "samples of the data share the chains' bits",
        "_trainer.pyx",
        "draw.step, draw.purpose = self.step, DRAW_DATA",
        "draw.step, draw.purpose = self.step, DRAW_HIDDEN",
    ),
    Mutation(
        "six rounds of Philox",
        "_simd.h",
        "#define PHILOX_ROUNDS 7",
        "#define PHILOX_ROUNDS 6",
    ),
    Mutation(
        "ties not refined",
        "_leaves_units.h",
        "for (tie &= ~on; tie; tie &= tie - 1)",
        "for (tie = 0; tie; tie &= tie - 1)",
    ),
    Mutation(
        "ties refined the other way round",
        "_leaves_units.h",
        "if (d[k] + philox_refine(",
        "if (d[k] + 1 - philox_refine(",
    ),
    Mutation(
        "ties of all rows refined by the same bits",
        "_leaves_units.h",
        "purpose, row0 + (uint32_t)r,",
        "purpose, row0,",
    ),
    Mutation(
        "ties taken for on",
        "_leaves_units.h",
        "BITS_WHERE(u + (REAL)1, LE, t)",
        "BITS_WHERE(u, LE, t)",
    ),
    Mutation(
        "draws: the second halves first",
        "_leaves_units.h",
        "ZIP(low, high, ZIP_LOWER)",
        "ZIP(high, low, ZIP_LOWER)",
    ),
    # ---- Lists ----
    Mutation(
        "dense real rows: the first one left out",
        "_leaves_sums.h",
        "for (; n > 0; n--, rows",
        "for (; n > 1; n--, rows",
    ),
    Mutation(
        "dense rows: a term of their sums left out",
        "_leaves_sums.h",
        "for (ptrdiff_t k = 0; k < rows->stride; k++)",
        "for (ptrdiff_t k = 1; k < rows->stride; k++)",
    ),
    Mutation(
        "dense rows: the last ones of a tile not stored",
        "_leaves_sums.h",
        "for (ptrdiff_t r = 0; r < count; r++)",
        "for (ptrdiff_t r = 0; r < count - 1; r++)",
    ),
    Mutation(
        "dense real rows: their share in the mean forgotten",
        "_trainer.pyx",
        "self.room.dense, self.n_visible, n, NULL, work.data_share, 64 * start,",
        "self.room.dense, self.n_visible, n, NULL, 1, 64 * start,",
    ),
    Mutation(
        "dense real rows: no projections",
        "_trainer.pyx",
        "self.room.dense, self.n_visible, work.n, self.row_projections, 1,",
        "self.room.dense, self.n_visible, 0, self.row_projections, 1,",
    ),
    Mutation(
        "dense rows: what was there before stays",
        "_rows.pyx",
        "memset(to, 0, self.n_columns * size)",
        "memset(to, 0, size)",
    ),
    Mutation(
        "bits of data that change are kept",
        "_rows.pyx",
        "if self.fixed and self.indices == NULL",
        "if self.indices == NULL",
    ),
    Mutation(
        "bits of data are kept of the rows of one block",
        "_rows.pyx",
        "memcpy(bits + row * self.n_words, room.bits",
        "memcpy(bits + row % 8 * self.n_words, room.bits",
    ),
    Mutation(
        "lists of bits off by one from the second word on",
        "_leaves_lists.h",
        "(uint32_t)(64 * w + lowest_bit(word))",
        "(uint32_t)(64 * w + lowest_bit(word) - (w > 0))",
    ),
    Mutation(
        "sixteen bits listed as the first sixteen",
        "_leaves_lists.h",
        "NAME(sixteen_units)(64 * w + k),\n",
        "NAME(sixteen_units)(64 * w),\n",
    ),
    Mutation(
        "sixteen pairs taken for units",
        "_leaves_lists.h",
        "_mm512_mask_add_epi32(x, (__mmask16)both,",
        "_mm512_mask_add_epi32(x, (__mmask16)(both & 0x5054),",
    ),
    Mutation(
        "the third of four rows left out of sixteen lists",
        "_leaves_lists.h",
        "_mm512_maskz_set1_epi8(w[2], 4)",
        "_mm512_maskz_set1_epi8(w[2], 0)",
    ),
    Mutation(
        "last row of a group left out",
        "_leaves_lists.h",
        "k < 4 && 4 * g + k < n_rows",
        "k < 3 && 4 * g + k < n_rows",
    ),
    Mutation(
        "last row of a block left out",
        "_leaves_lists.h",
        "k < 4 && 4 * g + k < n_rows",
        "k < 4 && 4 * g + k + 1 < n_rows",
    ),
    Mutation(
        "first unit of a thread's share left out",
        "_rows.pxd",
        "if x[middle] < least:",
        "if x[middle] <= least:",
    ),
    Mutation(
        "stored zeros of sparse data taken for active",
        "_rows.pyx",
        "if self._value(self.data, k) == 0:",
        "if False:",
    ),
    Mutation(
        "bytes of 128 taken for zero",
        "_rows.pyx",
        "((((x & low7) + low7) | x) >> 7)",
        "(((x & low7) + low7) >> 7)",
    ),
    Mutation(
        "values below one taken for bits",
        "_leaves_sums.h",
        "ones &= y == 1;",
        "ones &= y <= 1;",
        tests=("tests/test_kernels.py", "tests/test_bernoulli_rbm.py"),
    ),
    Mutation(
        "values below one taken for bits, at the ends of rows",
        "_leaves_sums.h",
        "all &= x[k] == 1;",
        "all &= x[k] <= 1;",
        tests=("tests/test_kernels.py", "tests/test_bernoulli_rbm.py"),
    ),
    Mutation(
        "ranges without the values that vectors leave over",
        "_leaves_sums.h",
        "if (x[k] < *low) *low = x[k];\n        if (x[k] > *high) *high = x[k];",
        "",
        tests=("tests/test_kernels.py", "tests/test_inputs.py"),
    ),
    Mutation(
        "infinite values not seen",
        "_leaves_sums.h",
        "*finite &= ((REAL *)&odd)[q] == 0;",
        "",
        tests=("tests/test_kernels.py", "tests/test_inputs.py"),
    ),
    # ---- Centring ----
    Mutation(
        "visible offset with the wrong sign",
        "_leaves_update.h",
        "sums[p][q] - change[p][q] * mu[i]",
        "sums[p][q] + change[p][q] * mu[i]",
    ),
    Mutation(
        "hidden offset with the wrong sign",
        "_leaves_update.h",
        "- offset[p][q] * dv;",
        "+ offset[p][q] * dv;",
    ),
    Mutation(
        "hidden biases pushed, not pulled, by the offsets",
        "_leaves_update.h",
        "change[p][q] - pull[p][q]",
        "change[p][q] + pull[p][q]",
    ),
    Mutation(
        "visible biases without the square of the offsets",
        "_leaves_update.h",
        "- change * u->squared_offset",
        "+ change * u->squared_offset",
    ),
    Mutation(
        "hidden offset follows the chains",
        "_leaves_update.h",
        "(mean - offset[p][q])",
        "(-((const V *)u->chain_total)[k] - offset[p][q])",
    ),
    # ---- The step ----
    Mutation(
        "momentum applied twice",
        "_leaves_update.h",
        "g = *velocity * momentum + g;",
        "g = *velocity * momentum * momentum + g;",
    ),
    Mutation(
        "momentum of the visible biases forgotten",
        "_leaves_update.h",
        "(REAL)u->momentum * velocity[i] + g",
        "g + 0 * velocity[i]",
    ),
    Mutation(
        "velocity scaled by the learning rate",
        "_leaves_update.h",
        "*velocity = g;",
        "*velocity = g * rate;",
    ),
    Mutation(
        "weights grow by their decay",
        "_leaves_update.h",
        "g - *w * decay",
        "g + *w * decay",
    ),
    Mutation(
        "L1 decay blind to the learning rate",
        "_trainer.pyx",
        "u.shrinkage = work.rate * self.l1_decay",
        "u.shrinkage = self.l1_decay",
    ),
    Mutation(
        "L1 decay lets small weights jump over zero",
        "_leaves_update.h",
        "SELECT(below < zero, below, zero)",
        "below",
    ),
    Mutation(
        "fast weights do not fade",
        "_leaves_update.h",
        "return fast * (REAL)FAST_DECAY + g * rate;",
        "return fast + g * rate;",
    ),
    Mutation(
        "fast weights follow the learning rate of the others",
        "_leaves_update.h",
        "*CELL(u->fast) = NAME(follow)(*CELL(u->fast), sums[p][q], fast_rate);",
        "*CELL(u->fast) = NAME(follow)(*CELL(u->fast), sums[p][q], rate);",
    ),
    Mutation(
        "fast visible biases do not fade",
        "_leaves_update.h",
        "fast[i] * (REAL)FAST_DECAY",
        "fast[i]",
    ),
    Mutation(
        "chains see the weights alone",
        "_leaves_update.h",
        "if (fast) *seen = x + *fast;",
        "if (fast) *seen = x;",
    ),
    Mutation(
        "data see the fast weights",
        "_trainer.pyx",
        "sample_panels(self.up, sweeps, n_sweeps",
        "sample_panels(self.chain_up, sweeps, n_sweeps",
    ),
    Mutation(
        "visible units of the chains do not see the fast weights",
        "_trainer.pyx",
        "self.chain_down, &sweep, 1",
        "self.down, &sweep, 1",
    ),
    Mutation(
        "sums of pairs of fast weights are not brought up to date",
        "_trainer.pyx",
        "self.chain_up.weights.sum_pairs(start, stop)",
        "pass",
    ),
    Mutation(
        "Nesterov's step without its gradient",
        "_leaves_update.h",
        "if (nesterov) g = gradient + g * momentum;",
        "if (nesterov) g = g + g * momentum;",
    ),
    Mutation(
        "visible biases without Nesterov's step",
        "_leaves_update.h",
        "if (u->nesterov) g = gradient",
        "if (0) g = gradient",
    ),
    Mutation(
        "sparsity pushes away from its target",
        "_leaves_update.h",
        "g += ((REAL)u->sparsity_target - mean)",
        "g -= ((REAL)u->sparsity_target - mean)",
    ),
    Mutation(
        "norms capped at their squares",
        "_leaves_update.h",
        "(REAL)(most / sqrt(lane[k]))",
        "(REAL)(most / lane[k])",
    ),
    Mutation(
        "capped weights do not enter their averages",
        "_leaves_update.h",
        "*w, u->average ? (V *)(u->average + cell) + q : NULL, mix,",
        "*w, NULL, mix,",
    ),
    Mutation(
        "average of one minibatch too many",
        "_trainer.pyx",
        "share_in_average(self.n_passed + 1, self.spacing)",
        "share_in_average(self.n_passed + 2, self.spacing)",
    ),
    Mutation(
        "average is of the minibatches before those that should enter",
        "_gibbs.pxd",
        "if n % spacing == 0 else",
        "if (n + 1) % spacing == 0 else",
    ),
    Mutation(
        "visible biases enter their average after every minibatch",
        "_trainer.pyx",
        "v.average = NULL",
        "v.average_rate = 1.0 / self.n_passed",
    ),
    Mutation(
        "average is the last minibatch",
        "_leaves_update.h",
        "(x - *average) * mix",
        "(x - *average)",
    ),
    # ---- The same bits for all processors and threads ----
    Mutation(
        "counter of a half-sweep depends on the thread",
        "_gibbs.pyx",
        "<uint32_t> first, self.draw.purpose,",
        "<uint32_t> (first + thread), self.draw.purpose,",
    ),
    Mutation(
        "counter of a minibatch depends on the thread",
        "_trainer.pyx",
        "draw.key, draw.row0 = self.key, <uint32_t> at",
        "draw.key, draw.row0 = self.key, <uint32_t> (at + thread)",
    ),
    Mutation(
        "AVX2 (if there is one) drops a unit",
        "_leaves.h",
        "(uint32_t)_mm256_movemask_ps((__m256)(m))",
        "((uint32_t)_mm256_movemask_ps((__m256)(m)) & 0x7Fu)",
    ),
    Mutation(
        "products and sums contracted where the processor can",
        "../setup.py",
        "-ffp-contract=off",
        '-ffp-contract=fast", "-O2',  # (with -O1, gcc contracts nothing)
    ),
    # ---- Jumps ----
    Mutation(
        "jumps always succeed",
        "_jumps.pyx",
        "4294967296.0) < self.gains[r]",
        "4294967296.0) < 1",
    ),
    Mutation(
        "jumps to where the model is not",
        "_jumps.pyx",
        "4294967296.0) < self.gains[r]",
        "4294967296.0) < -self.gains[r]",
    ),
    Mutation(
        "jumps blind to how likely their proposals are",
        "_jumps.pyx",
        "            - _log_proposal[double](self, <double *> products)",
        "",
    ),
    Mutation(
        "jumps blind to the hidden biases",
        "_jumps.pyx",
        "total[i] += <double> state[j + i] * bias[j + i]",
        "total[i] += 0 * bias[j]",
    ),
    Mutation(
        "rows of jumps without their normalisers",
        "_jumps.pyx",
        "products[k] -= <real> jumps.log_partitions[k]",
        "products[k] -= 0",
    ),
    Mutation(
        "rows of jumps with the normalisers of those before them",
        "_jumps.pyx",
        "            self.unknown[k] = 1\n",
        "",
    ),
    Mutation(
        "rows of jumps always kept in the same places",
        "_jumps.pyx",
        "        if r < POOL:\n            k = (self.at + r) % POOL",
        "        if r < POOL:\n            k = r % POOL",
    ),
    Mutation(
        "last products of jumps left out",
        "_jumps.pyx",
        "total[0] += products[k]",
        "total[0] += 0",
    ),
    Mutation(
        "all chains are proposed states of one row",
        "_jumps.pyx",
        "random_words(words, 0, noise.row, step",
        "random_words(words, 0, 0, step",
    ),
    Mutation(
        "jumps seldom in wide machines",
        "_jumps.pyx",
        "max(FEW, _wait(work, others // SHARE))",
        "LONG_WAIT",
    ),
    Mutation(
        "jumps however dear",
        "_jumps.pyx",
        "min(_wait(work, MUCH_WORK), _wait(work, TIMES * others))",
        "1",
    ),
    Mutation(
        "jumps that fail do not wait longer",
        "_jumps.pyx",
        "min(2 * self.wait, <uint64_t> LONGEST_WAIT)",
        "self.usual_wait",
    ),
    Mutation(
        "jumps take their time though chains are far from the model",
        "_jumps.pyx",
        "            self.wait = self.short_wait\n",
        "            pass\n",
    ),
    Mutation(
        "after jumps that came at once, the next ones are late",
        "_jumps.pyx",
        "self.wait = min(self.wait, self.usual_wait)",
        "self.wait = self.usual_wait",
    ),
    Mutation(
        "a minibatch that was begun is forgotten",
        "_minibatches.pyx",
        "self.unfinished = stop % self.sweeps_per_batch != 0",
        "self.unfinished = False",
    ),
    Mutation(
        "no jumps to places beyond rows of counts",
        "_jumps.pyx",
        "self.beyond and k // SPACING % 2 == 1",
        "False",
    ),
    Mutation(
        "no jumps to places between rows",
        "_jumps.pyx",
        "return self.between and k % SPACING == SPACING - 1",
        "return False",
    ),
    Mutation(
        "jumps of samples always succeed",
        "samplers/_jumps.py",
        "np.log(chances[part]) < gain",
        "gain == gain",
    ),
    Mutation(
        "jumps of samples blind to how likely their proposals are",
        "samplers/_jumps.py",
        " - logsumexp(scores, axis=1)",
        "",
    ),
    Mutation(
        "samples start near one row",
        "samplers/_jumps.py",
        "(where * len(rows)).astype(int)",
        "(0 * where).astype(int)",
    ),
    Mutation(
        "samples do not jump",
        "samplers/_draws.py",
        "jumps = jumps and method",
        "jumps = False and method",
    ),
    Mutation(
        "visible units stay behind when chains jump",
        "_unit_trainer.pyx",
        "            if self.jumps.accepted[r]:",
        "            if 0:",
    ),
    Mutation(
        "bits stay behind when chains jump",
        "_trainer.pyx",
        "            if self.jumps.accepted[r]:",
        "            if 0:",
    ),
    Mutation(
        "what is proposed to chains of bits as likely as where they are",
        "_trainer.pyx",
        "                self.down.fields(\n                    &then,",
        "                self.down.fields(\n                    &now,",
    ),
    # ---- Scores ----
    Mutation(
        "free energy with the visible biases' sign",
        "_scores.pyx",
        "scores[r] = -_linear(",
        "scores[r] = _linear(",
    ),
    Mutation(
        "pseudo-likelihood without the visible biases",
        "_scores.pyx",
        "x[n] = bias[i] + logits[i]",
        "x[n] = logits[i]",
    ),
    Mutation(
        "pseudo-likelihood blind to which way a bit flips",
        "_leaves_scores.h",
        "AS_INT(up_change) ^ (set[r][q] & SIGN_BIT)",
        "AS_INT(up_change)",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "pseudo-likelihood without the last sites",
        "_scores.pyx",
        "if n == MOST_DOUBLES or i == n_features - 1:",
        "if n == MOST_DOUBLES:",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "exponents of flips unbiased once",
        "_leaves_scores.h",
        "bias += EXPONENT_ONE;",
        "bias = EXPONENT_ONE;",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "products of flips overflow",
        "_leaves_scores.h",
        "while (often > 4 && often * largest > EXP_LIMIT - 7) often /= 2;",
        "",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "flips on and off by the last of rows alone",
        "_leaves_scores.h",
        "any[r / FLIPPED] |= flags;",
        "any[r / FLIPPED] = flags;",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "the last hidden units of three are two in flips",
        "_leaves_scores.h",
        "NAME(flip_few)(on + at, off + at, j_up, j_down, s, 3, x);",
        "NAME(flip_few)(on + at, off + at, j_up, j_down, s, 2, x);",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "flips of rows share what is set",
        "_leaves_scores.h",
        "w[q] ^ (other[q] & set[f][q])",
        "w[q] ^ (other[q] & set[0][q])",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "pseudo-likelihood loses small probabilities",
        "_leaves_scores.h",
        "const V unlikely = e * likely;",
        "const V unlikely = (REAL)1 - likely;",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "pseudo-likelihood takes values for bits",
        "_leaves_scores.h",
        "if (!v || v[k] == 0 || v[k] == 1)",
        "if (1)",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "pseudo-likelihood of values with the wrong remainder",
        "_leaves_scores.h",
        "x1 = f + w * ((REAL)1 - v)",
        "x1 = f + w * v",
    ),
    # ---- Paths, swaps, clamped units, imputation ----
    Mutation(
        "gains of the visible biases with the wrong sign",
        "_ais.pyx",
        "(self.aims[r] - self.betas[r]) * self._linear(r)",
        "(self.betas[r] - self.aims[r]) * self._linear(r)",
    ),
    Mutation(
        "gains without the visible biases",
        "_ais.pyx",
        "(self.aims[r] - self.betas[r]) * self._linear(r)",
        "0",
    ),
    Mutation(
        "products of gains not looked at in time",
        "_ais.pyx",
        "if p % FLUSH_GAINS == FLUSH_GAINS - 1 or p == self.up.n_panels - 1:",
        "if p == self.up.n_panels - 1:",
    ),
    Mutation(
        "gains do not begin anew",
        "_leaves_scores.h",
        "    NAME(start_gains)(gains, n_rows);",
        "    ;",
    ),
    Mutation(
        "gains from where they lead to",
        "_leaves_scores.h",
        "g[NV + q] *= NAME(one_plus_exp)(x0);",
        "g[NV + q] *= NAME(one_plus_exp)(x1);",
    ),
    Mutation(
        "gains to all of the base",
        "_leaves_scores.h",
        "a1 = (REAL)(1 - to[r])",
        "a1 = 1",
    ),
    Mutation(
        "chains at all of the base",
        "_leaves_units.h",
        "a = (REAL)(1 - betas[r])",
        "a = 1",
    ),
    Mutation(
        "visible units drawn at the model's temperature",
        "_ais.pyx",
        "sweep.base, sweep.betas = self.path.base_visible, &self.betas[first]",
        "sweep.base = NULL",
    ),
    Mutation(
        "annealing sweeps at the temperature before",
        "_ais.pyx",
        "                    team.betas[r] = betas[k + 1]",
        "                    team.betas[r] = betas[k]",
    ),
    Mutation(
        "sweeps of annealing share their bits",
        "_ais.pyx",
        "team.move(first, last, k, True, scratch)",
        "team.move(first, last, 0, True, scratch)",
    ),
    Mutation(
        "clamped units let go on a path",
        "_ais.pyx",
        "if self.mask is not None:",
        "if False:",
    ),
    Mutation(
        "clamped units let go",
        "_gibbs.pyx",
        "if mask is not None:",
        "if False:",
    ),
    Mutation(
        "swaps of the other parity",
        "_ais.pyx",
        "team.swap(e, levels, s % 2, s)",
        "team.swap(e, levels, (s + 1) % 2, s)",
    ),
    Mutation(
        "partners that never change",
        "_ais.pyx",
        "team.aim(e, levels, betas, s % 2)",
        "team.aim(e, levels, betas, 0)",
    ),
    Mutation(
        "swaps without the logarithm",
        "_ais.pyx",
        "if log(u) < self.gains",
        "if u < self.gains",
    ),
    Mutation(
        "swaps by one gain of two",
        "_ais.pyx",
        "if log(u) < self.gains[first + low] + self.gains[first + high]:",
        "if log(u) < self.gains[first + low]:",
    ),
    Mutation(
        "swaps of all sweeps share their bits",
        "_ais.pyx",
        "x, <uint32_t> level, <uint32_t> e, step,",
        "x, <uint32_t> level, <uint32_t> e, 0,",
    ),
    Mutation(
        "swaps of all ensembles share their bits",
        "_ais.pyx",
        "x, <uint32_t> level, <uint32_t> e, step,",
        "x, <uint32_t> level, 0, step,",
    ),
    Mutation(
        "a chain that has swapped sweeps as if it had not",
        "_ais.pyx",
        "self.betas[first + low] = self.aims[first + low]",
        "pass",
    ),
    Mutation(
        "means of imputation with their warm-up",
        "samplers/_draws.py",
        "if k >= n_steps // 2:",
        "if True:",
    ),
    Mutation(
        "values observed between 0 and 1 become bits",
        "samplers/_draws.py",
        "np.copyto(visible, drawn, where=missing)",
        "np.copyto(visible, drawn)",
    ),
    Mutation(
        "swaps counted at the wrong sweeps",
        "samplers/_swaps.py",
        "pairs = visits - (visits - parity[:, np.newaxis, np.newaxis]) % 2",
        "pairs = visits - (visits + 1 - parity[:, np.newaxis, np.newaxis]) % 2",
    ),
    Mutation(
        "temperatures spread by gains, not by losses",
        "samplers/_swaps.py",
        "np.maximum(-gains / tried, 1e-12)",
        "np.maximum(gains / tried, 1e-12)",
    ),
    Mutation(
        "temperatures of a negative phase move by all swaps there ever were",
        "_tempering.py",
        "            self.swaps = np.zeros_like(self.swaps)\n",
        "",
    ),
    Mutation(
        "training that goes on forgets the swaps since the temperatures moved",
        "_tempering.py",
        'self.betas, self.swaps = state["betas"], state["swaps"]',
        'self.betas = state["betas"]',
    ),
    Mutation(
        "a condition for every chain given to all",
        "samplers/_chains.py",
        "init[fixed] = np.broadcast_to(values, init.shape)[fixed]",
        "init[fixed] = np.broadcast_to(values[:1], init.shape)[fixed]",
    ),
    Mutation(
        "langevin: less noise than is forgotten",
        "_machines.py",
        "(1 - keep**2) ** 0.5 * (drawn - means)",
        "(1 - keep) * (drawn - means)",
    ),
    Mutation(
        "weights of bits are scaled as those between real units",
        "_excess.pyx",
        "if not self.visible_unbounded[i]:",
        "if False:",
    ),
    Mutation(
        "weights between real units follow one direction too few",
        "_excess.pyx",
        "if self.n_found < self.n_directions:",
        "if True:",
    ),
    Mutation(
        "hidden vectors of these directions stay oblique",
        "_vectors.pxd",
        "if fabs(both) <= 1e-4 *",
        "if fabs(both) <= 1e4 *",
    ),
    Mutation(
        "the norm between real units counts hidden bits",
        "_excess.pyx",
        "turned[j] *= self.hidden_unbounded[j] * self.hidden.deviation[j]",
        "turned[j] *= self.hidden.deviation[j]",
    ),
    Mutation(
        "langevin: trained with less noise than is forgotten",
        "_unit_trainer.pyx",
        "cdef double fresh = sqrt(1 - keep * keep), mean",
        "cdef double fresh = 1 - keep, mean",
    ),
    Mutation(
        "langevin: chains stay where they began",
        "_unit_trainer.pyx",
        "memcpy(place, row, self.v_bytes)",
        "pass",
    ),
    # ---- The estimator's use of the kernels ----
    Mutation(
        "second Gibbs step with the bits of the first",
        "samplers/_chains.py",
        "first + start,\n                chains.fixed",
        "first,\n                chains.fixed",
    ),
    Mutation(
        "calls of gibbs with the same bits",
        "boltzmann/_sampling.py",
        "self._sampling_step += n_steps",
        "self._sampling_step += 0",
    ),
    # ---- Linear factor models ----
    Mutation(
        "factors: what they explain is added",
        "_leaves_factors.h",
        "squares[r] -= ((const REAL *)&sum)[k]",
        "squares[r] += ((const REAL *)&sum)[k]",
    ),
    Mutation(
        "factors: single precision reads the first row of four",
        "_factor_scores.pyx",
        "row[j] = X[first + r, j]",
        "row[j] = X[first, j]",
    ),
    Mutation(
        "factors: those that do not fill a vector are left out",
        "_leaves_factors.h",
        "const ptrdiff_t width = (n_factors + LANES - 1) / LANES;",
        "const ptrdiff_t width = n_factors / LANES;",
    ),
    Mutation(
        "factors: the last columns are left out of the squares",
        "_leaves_factors.h",
        "if (whole < n)",
        "if (0)",
    ),
    # ---- Sources of ICA ----
    Mutation(
        "sources: the slope of a tanh at half its rate",
        "_leaves_sources.h",
        "a + s * c * (e * inverse * inverse) * (REAL)2",
        "a + s * (e * inverse * inverse) * (REAL)2",
    ),
    Mutation(
        "sources: skewed densities are not shifted",
        "_leaves_sources.h",
        "const V x = y + shift,",
        "const V x = y,",
    ),
    Mutation(
        "sources: the hyperbolic slope has the power of a square",
        "_leaves_sources.h",
        "cosine * cosine * inverse",
        "cosine * inverse * inverse",
    ),
    Mutation(
        "sources: Student's slope without its negative part",
        "_leaves_sources.h",
        "(df - square)",
        "df",
    ),
    Mutation(
        "sources: exponents of a product not counted",
        "_leaves_sources.h",
        "NAME(take_exponent)(&product, &exponent);",
        "exponent += (INT)EXPONENT_ONE + AS_INT(SPLAT(0));",
    ),
    Mutation(
        "sources: curvatures of products instead of squares",
        "_ica.pyx",
        "add_product[real](slope, square,",
        "add_product[real](slope, y,",
    ),
    Mutation(
        "sources: by themselves, slopes of values instead of squares",
        "_ica.pyx",
        "slope[p + c] * square[p + c]",
        "slope[p + c] * y[p + c]",
    ),
    Mutation(
        "sources: strands leave out blocks",
        "_ica.pyx",
        "block = block + n_strands",
        "block = block + n_strands + 1",
    ),
    # ---- Classification RBMs ----
    Mutation(
        "classes: the hybrid rate does not know how rare labels are",
        "boltzmann/_trained_classifier.py",
        "rate = RATE / np.sqrt(rarity)",
        "rate = RATE",
        tests=("tests/test_classifier_trainer.py",),
    ),
    Mutation(
        "classes: a label's weights left out of the softplus",
        "_leaves_classes.h",
        "sum[q] += LARGER(x, zero);",
        "sum[q] += SELECT(x > zero, ((const V *)fields)[k], zero);",
    ),
    Mutation(
        "scores of many classes: rows of a block take each other's changes",
        "_class_scores.pyx",
        "changes_[thread, r * n_classes + y]",
        "changes_[thread, y]",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "units: spins are bits of the same field",
        "_units.pyx",
        "x[k] = -2 * fabs(x[k])",
        "x[k] = -fabs(x[k])",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "pseudo-likelihood: sites of the last block are counted twice",
        "_scores.pyx",
        "            n = 0\n",
        "            n = n // 2\n",
        tests=("tests/test_kernels.py",),
    ),
    Mutation(
        "classes: the gradient forgets p(y|v)",
        "_classifier.pyx",
        "weights[y] = (a + g) * (y == code) - a * p[y]",
        "weights[y] = (a + g) * (y == code)",
    ),
    Mutation(
        "classes: steps of scaled features are as long as those of others",
        "_classifier.pyx",
        "rate * self.scales[i],",
        "rate,",
    ),
    Mutation(
        "classes: biases do not know of the scales of features",
        "_classifier.pyx",
        "self.scaled_offset = np.multiply(self.scales, self.offset)",
        "self.scaled_offset = np.array(self.offset)",
    ),
    Mutation(
        "classes: scaled features decay faster",
        "_classifier.pyx",
        "self.weight_decay / self.scales[i],",
        "self.weight_decay,",
    ),
    Mutation(
        "classes: unlabelled rows take part in the discriminative gradient",
        "_classifier.pyx",
        "weights[y] = g * p[y]",
        "weights[y] = (g + a) * p[y]",
    ),
    Mutation(
        "classes: labels of chains drawn without their biases",
        "_classifier.pyx",
        "p[y] += self._at(parts.label, y)",
        "p[y] += 0",
    ),
    Mutation(
        "classes: hidden units of chains do not see the label",
        "_classifier.pyx",
        "parts.labels + self.label_draws[r] * stride + start, 1, size, field",
        "parts.labels + self.label_draws[r] * stride + start, 0, size, field",
    ),
    Mutation(
        "classes: the negative phase has the label of the first chain",
        "_classifier.pyx",
        "gradient.labels + self.label_draws[r] * stride + start,",
        "gradient.labels + self.label_draws[0] * stride + start,",
    ),
    Mutation(
        "classes: chains averaged over the number of rows",
        "_classifier.pyx",
        "n, m, <uint32_t> at, sweep, self.generative / batch_chains, chains,",
        "n, m, <uint32_t> at, sweep, self.generative / batch_rows, chains,",
    ),
    Mutation(
        "classes: labels and visible units share random bits",
        "_classifier.pyx",
        """DRAW_LABEL,
            )
""",
        """DRAW_VISIBLE,
            )
""",
    ),
    Mutation(
        "classes: labels of rows and of their chains share random bits",
        "_classifier.pyx",
        """DRAW_ROW_LABEL,
                )
""",
        """DRAW_LABEL,
                )
""",
    ),
    Mutation(
        "classes: a pass starts its gradient anew",
        "_classifier.pyx",
        "cdef bint fresh = part == 0, last",
        "cdef bint fresh = True, last",
    ),
    Mutation(
        "classes: biases decay",
        "_classifier.pyx",
        "rate, self.weight_decay if y < self.n_classes else 0,",
        "rate, self.weight_decay,",
    ),
    Mutation(
        "classes: features are not centred",
        "_classifier.pyx",
        "if self.offset[i] != 0:\n                self.leaves.add_scaled(\n"
        "                    self.plain",
        "if self.offset[i] > 1e9:\n                self.leaves.add_scaled(\n"
        "                    self.plain",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "classes: biases do not give way to centred weights",
        "_classifier.pyx",
        "row, 1 + self.offset_square - self.projections[r], size,",
        "row, 1, size,",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "classes: biases do not give way to the decay of weights",
        "_classifier.pyx",
        "        if self.weight_decay == 0:\n            return\n",
        "        if self.weight_decay >= 0:\n            return\n",
        tests=("tests/test_classifier_trainer.py",),
    ),
    Mutation(
        "classes: chains have the projections of rows",
        "_classifier.pyx",
        "                    self._set_at(<char *> active.value, k, 1)\n"
        "            self.projections[r] = self._projection(active)\n",
        "                    self._set_at(<char *> active.value, k, 1)\n"
        "            self.projections[r] = self.projections[0]\n",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "classes: rare labels make steps of one row",
        "boltzmann/_trained_classifier.py",
        "if discriminative and rows_a_label > most:",
        "if False:",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "classes: rows are held out whatever their class",
        "_training.py",
        'order = order[np.argsort(classes[order], kind="stable")]',
        "order = order[:]",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "rows held out count the same, whatever their class",
        "boltzmann/_predicted_labels.py",
        "weights = None if class_weight is None else",
        "weights = None if True else",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "pretraining counts from what is called 0",
        "boltzmann/_trained.py",
        "np.where(bits & (means > 0.5), 1.0, 0.0)",
        "np.where(False, 1.0, 0.0)",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "greedy layers start from biases of units that hear twice",
        "boltzmann/_dbm_pretraining.py",
        "    elif part.k:\n",
        "    elif False:\n",
        tests=("tests/test_dbm_fit.py",),
    ),
    Mutation(
        "multi-prediction: every row observes half of its inputs",
        "boltzmann/_multi_prediction.py",
        "np.float32) < shares",
        "np.float32) < 0.5",
        tests=("tests/test_multi_prediction.py",),
    ),
    Mutation(
        "classes: unlabelled rows stay in a discriminative fit",
        "boltzmann/_trained_classifier.py",
        'if self.objective == "discriminative" and not known.all():',
        'if self.objective == "nothing" and not known.all():',
    ),
    Mutation(
        "classes: labels of samples are not kept",
        "boltzmann/_fitted_classifier.py",
        "        if codes is None:\n            v = self",
        "        if True:\n            v = self",
        tests=("tests/test_dbn_generative.py",),
    ),
    # ---- Pretrained nets ----
    Mutation(
        "net: the last parameters take no step of Adam",
        "_leaves_classes.h",
        "k < n; k += LANES",
        "k + LANES <= n; k += LANES",
        tests=("tests/test_network.py",),
    ),
    Mutation(
        "deep: sparse rows of a block are all its first one",
        "_mean_field.pyx",
        "first + r, <uint64_t *> block.blank",
        "first, <uint64_t *> block.blank",
        tests=("tests/test_mean_field.py",),
    ),
    Mutation(
        "net: slopes of units that have been dropped",
        "_passes.pyx",
        "delta[r, j] *= a * (1 - a / m) if m != 0 else 0",
        "delta[r, j] *= a * (1 - a)",
    ),
    Mutation(
        "net: class weights left out of the derivative",
        "_passes.pyx",
        "fields[r, j] = <real> (weight * (fields[r, j]",
        "fields[r, j] = <real> (scale * (fields[r, j]",
    ),
    Mutation(
        "net: Nesterov's momentum is the plain one",
        "_passes.pyx",
        "parameters[k] += m * v - r * gradient[k]",
        "parameters[k] += v",
    ),
    Mutation(
        "net: the caps of columns are of squares",
        "_passes.pyx",
        "squares[j] = max_norm / sqrt(squares[j])",
        "squares[j] = max_norm / squares[j]",
    ),
    Mutation(
        "net: a turned factor is read as it is",
        "_products.pyx",
        "&a[0, i] if a_turned else &a[i, 0], <int> a.shape[1],",
        "&a[i, 0], <int> a.shape[1],",
    ),
    Mutation(
        "net: sparse rows are summed in one stretch",
        "_leaves_products.h",
        "const uint32_t stop = (index[k] / DEPTH + 1) * DEPTH;",
        "const uint32_t stop = UINT32_MAX;",
        tests=("tests/test_products.py",),
    ),
    Mutation(
        "net: the last columns of sparse products are left out",
        "_leaves_products.h",
        "if (j + nv * LANES > n && n >= LANES) j = n - nv * LANES;",
        "if (j + nv * LANES > n && n >= LANES) break;",
        tests=("tests/test_products.py",),
    ),
    Mutation(
        "net: the penalty has no derivative",
        "_network.py",
        "            beta=self.weight_decay,\n",
        "            beta=0.0,\n",
    ),
    Mutation(
        "net: what stays is not scaled up",
        "_network.py",
        "mask *= self.dtype.type(1 / stays)",
        "mask *= self.dtype.type(1)",
    ),
    Mutation(
        "net: all layers drop the same units",
        "_network.py",
        "self.key, step, purpose=layer",
        "self.key, step, purpose=0",
    ),
    Mutation(
        "net: Adam's means are not corrected",
        "_network.py",
        "rate *= root / (1 - MEAN_DECAY**t)",
        "rate *= root",
    ),
    Mutation(
        "net: rows without labels are trained on",
        "boltzmann/_fine_tuned_classifier.py",
        "        return codes, known\n",
        "        return codes, np.ones_like(known)\n",
    ),
    Mutation(
        "net: machines are never centred",
        "boltzmann/_fine_tuned.py",
        "variances.sum() < MOSTLY_MEAN * np.square(rarer).sum()",
        "False",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "net: class weights are not scaled",
        "boltzmann/_fine_tuned_classifier.py",
        "weights * (counts.sum() / total)",
        "weights",
    ),
    Mutation(
        "net: the last epoch is kept instead of the best",
        "boltzmann/_fine_tuned.py",
        '(best["parameters"] if best else run.params)',
        "run.params",
    ),
    # ---- Deep machines ----
    Mutation(
        "deep: mean field begins with inputs that count once",
        "_mean_field.pyx",
        "odd.fields + r * odd.n_bytes, 1.0, n_panels",
        "odd.fields + r * odd.n_bytes, 0.0, n_panels",
    ),
    Mutation(
        "deep: rows that have settled are worked on",
        "_mean_field.pyx",
        "if block.done[r]:",
        "if False:",
    ),
    Mutation(
        "deep: mean field stops at twice the tolerance",
        "_mean_field.pyx",
        "latent.moved[r] <= self.tolerance",
        "latent.moved[r] <= 2 * self.tolerance",
    ),
    Mutation(
        "deep: changes that are small beside those of another step are not told",
        "_mean_field.pyx",
        "share * side.moved[r]",
        "share * side.moved[0]",
    ),
    Mutation(
        "deep: rows are done while changes wait to be told",
        "_mean_field.pyx",
        "odd.least[r] > SHARE_OF_TOLERANCE * self.tolerance",
        "False",
    ),
    Mutation(
        "deep: changes are told twice",
        "_leaves_units.h",
        "*before = SELECT(bound < size, mean, *before);",
        "",
    ),
    Mutation(
        "deep: changes are heard in the first turn only",
        "_leaves_rows.h",
        "more |= next[r] < length;",
        "",
    ),
    Mutation(
        "deep: odd units hear the given ones in place of the latent",
        "_mean_field.pyx",
        "weights.row(s, first)",
        "weights.row(s, 0)",
    ),
    Mutation(
        "deep: latent means without their biases",
        "_mean_field.pyx",
        "latent.n_units * self.itemsize",
        "0",
    ),
    Mutation(
        "deep: layers that are no neighbours are connected",
        "_unit_trainer.pyx",
        "u.mask = self.masks + self.mask_of[i] * self.h_bytes",
        "u.mask = NULL",
    ),
    Mutation(
        "deep: all even units are connected like the first",
        "_unit_trainer.pyx",
        "self.masks + self.mask_of[i] *",
        "self.masks + self.mask_of[0] *",
    ),
    Mutation(
        "deep: centres of latent units stay",
        "_unit_trainer.pyx",
        "for j in range(self.n_given, self.n_visible):",
        "for j in range(self.n_visible, self.n_visible):",
    ),
    Mutation(
        "deep: centres of the data move",
        "_unit_trainer.pyx",
        "for j in range(self.n_given, self.n_visible):",
        "for j in range(self.n_visible):",
    ),
    Mutation(
        "deep: latent means are not seen from above",
        "_unit_trainer.pyx",
        "for r in range(first, last):",
        "for r in range(last, last):",
    ),
    Mutation(
        "deep: inputs that count twice, centred as if once",
        "_unit_trainer.pyx",
        "u.seen_offset *= self.up_scale",
        "u.seen_offset *= 1",
    ),
    Mutation(
        "deep: answers that count twice, centred as if once",
        "_unit_trainer.pyx",
        "g -= self.down_scale * u.projection",
        "g -= u.projection",
    ),
    Mutation(
        "deep: the bound has half its entropy",
        "_deep_machines.py",
        "(entr(latent) + entr(1 - latent))",
        "entr(latent)",
    ),
    Mutation(
        "deep: mean field of real units begins at an origin of their scale",
        "_deep_machines.py",
        "layers, origins = counted_from_origins(layers)",
        "origins = [0.0 * np.asarray(bias) for bias in layers.biases]",
    ),
    Mutation(
        "deep: mean field upside down takes all units for bits",
        "_deep_machines.py",
        "as_unit(hidden)",
        'as_unit("bernoulli")',
    ),
    Mutation(
        "deep: weights of layers between are not halved",
        "boltzmann/_dbm_pretraining.py",
        "1.0 if first or self.last else 0.5",
        "1.0",
    ),
    Mutation(
        "hidden units do not start at their rates where data are at their mean",
        "boltzmann/_starts.py",
        "biases[k + 1] - weighted_sums(weight.T, means[k])",
        "biases[k + 1]",
    ),
    Mutation(
        "the first weights do not know how much features vary",
        "boltzmann/_starts.py",
        "np.sqrt(4 * variance / max(heard))",
        "np.sqrt(1 / max(heard)) * np.ones(len(variance))",
    ),
    Mutation(
        "deep: pretraining loses the means of every second hidden layer",
        "boltzmann/_dbm_pretraining.py",
        "even[sizes[0] :]  #",
        "even[sizes[0] :].copy()  #",
    ),
    Mutation(
        "deep: biases of the pretraining do not know that inputs are heard twice",
        "boltzmann/_dbm_pretraining.py",
        "logit(rate) - self.up * weighted_sums",
        "logit(rate) - weighted_sums",
    ),
    Mutation(
        "deep: weights of the start do not know that layers have two neighbours",
        "boltzmann/_starts.py",
        "n_heard = 1 if len(weights) == 1 else 2",
        "n_heard = 1",
    ),
    Mutation(
        "nets begin on a plateau",
        "boltzmann/_net_starts.py",
        "            W += gain * first[layer]\n",
        "",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "nets begin with units that are copies of each other",
        "boltzmann/_net_starts.py",
        "W += gain * first[layer]",
        "W *= 1 + gain",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "of epochs with one accuracy the first is kept",
        "_stopping.py",
        "losses += (-entry",
        "losses += (0 * entry",
        tests=("tests/test_monitoring.py",),
    ),
    Mutation(
        "the squares of draws overflow",
        "samplers/_diagnostics.py",
        "np.ldexp(x, -exponent)",
        "x",
        tests=("tests/test_samplers.py",),
    ),
    Mutation(
        "sparse coding takes a pass that goes up for the end",
        "factors/sparse_coding.py",
        "PATIENCE = 3",
        "PATIENCE = 1",
        tests=("tests/test_sparse_coding.py",),
    ),
    Mutation(
        "components that hold all rows are not warned of",
        "factors/_fits.py",
        "n_rows - 1 <= n_components and",
        "n_rows + 1 <= n_components and",
        tests=("tests/test_factor_analysis.py",),
    ),
    Mutation(
        "random weights are added at their own size only",
        "boltzmann/_net_starts.py",
        "gain = max(min(enough, 1), min(least, MOST_GAIN))",
        "gain = min(enough, 1)",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "random weights are added as if nothing had been learned",
        "boltzmann/_net_starts.py",
        "spread**2 - learned",
        "spread**2",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "biases do not keep the means of fields that vary",
        "boltzmann/_net_starts.py",
        "b -= gain * added",
        "b -= 0 * added",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "biases keep the means of fields that are spread",
        "boltzmann/_net_starts.py",
        "b[:] = -fields.mean(",
        "b[:] = b - 0 * fields.mean(",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "deep: the lowest layer is pretrained with its input once",
        "boltzmann/_dbm_pretraining.py",
        "up = 2.0 if first and not self.last and not self.only else 1.0",
        "up = 1.0",
    ),
    Mutation(
        "deep: a shared layer starts from one of its biases",
        "boltzmann/_dbm_pretraining.py",
        "(self._bias_from_below + visible) / 2",
        "visible",
    ),
    Mutation(
        "deep: the next layer is pretrained on means of inputs once",
        "boltzmann/_dbm_pretraining.py",
        "(up / np.exp(log_variance))",
        "(1 / np.exp(log_variance))",
    ),
    Mutation(
        "deep: biases keep the shift of the rows",
        "boltzmann/_visible_scales.py",
        "hidden - weighted_sums(components, shift",
        "hidden + weighted_sums(components, shift",
    ),
    Mutation(
        "deep: unobserved layers are given",
        "boltzmann/_fitted_dbm.py",
        "np.pad(missing, padding, constant_values=True)",
        "np.pad(missing, padding)",
    ),
    Mutation(
        "deep: every epoch on the same states",
        "boltzmann/_upper_rbm.py",
        "self.number += 1",
        "self.number += 0",
    ),
    Mutation(
        "deep: calls that go on draw states again",
        "boltzmann/_upper_rbm.py",
        '2 * self._state["step"]',
        "0",
    ),
    Mutation(
        "deep: a turned machine keeps the biases where they were",
        "boltzmann/_upper_rbm.py",
        "[below.intercept_visible_, hidden]",
        "[0 * below.intercept_visible_, hidden]",
    ),
    Mutation(
        "deep: spare units move the biases of the others",
        "boltzmann/_upper_rbm.py",
        "below.intercept_hidden_ - weighted_sums(spare.T, rate)",
        "below.intercept_hidden_",
    ),
    Mutation(
        "deep: chains of a turned machine begin anywhere",
        "boltzmann/_upper_rbm.py",
        "if states is None:",
        "if states is not None:",
    ),
    Mutation(
        "deep: a folded machine turned the wrong way",
        "layered.py",
        "sum(sizes[1:odd:2])",
        "sum(sizes[1:even:2])",
    ),
    Mutation(
        "deep: chains stay in their modes",
        "boltzmann/_trained_dbm.py",
        'trainer.start_jumps(state.get("jumps"))',
        "pass",
    ),
    Mutation(
        "ICA: what numbers were rounded by is a direction",
        "factors/_ica_whitening.py",
        "np.maximum(floor * variances[0], vectors**2 @ rounding)",
        "floor * variances[0]",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "ICA: rounding of the mean is a direction",
        "factors/_ica_whitening.py",
        "centred -= centred.mean(axis=0)",
        "pass",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "ICA: rounding of second moments is a direction",
        "factors/_ica_whitening.py",
        "floor = N_EPS_OF_MOMENTS * n_features * eps",
        "floor = n_features * eps",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "deep: every layer of counts is pretrained by itself",
        "boltzmann/dbm.py",
        "return 1 if large else super()",
        "return super()",
        tests=("tests/test_dbm_fit.py",),
    ),
    Mutation(
        "deep: the lowest layer of counts hears them twice",
        "boltzmann/_dbm_pretraining.py",
        "2.0 if first and not self.last and not self.only else",
        "2.0 if first and not self.last else",
        tests=("tests/test_dbm_fit.py",),
    ),
    Mutation(
        "deep: rates do not know that counts are large",
        "boltzmann/_trained_dbm.py",
        "of_counts = rate_of_counts(RATE, kinds, means, self._hidden_sizes[0])",
        "of_counts = RATE",
        tests=("tests/test_dbm_fit.py", "tests/test_unit_rbm.py"),
    ),
    Mutation(
        "counts hold everything up",
        "_unit_trainer.pyx",
        "rate * self.rate_shares[i])",
        "rate)",
        tests=("tests/test_unit_trainer.py",),
    ),
    Mutation(
        "hidden biases give way to what weights of counts did not do",
        "_leaves_update.h",
        "(REAL)(u->seen_offset * u->rate_share)",
        "(REAL)u->seen_offset",
        tests=("tests/test_unit_trainer.py",),
    ),
    Mutation(
        "rates for counts do not know how many hidden units there are",
        "boltzmann/_rates.py",
        "largest * max(1, n_hidden / WIDE)",
        "largest",
    ),
    # ---- Units ----
    Mutation(
        "units: spins with the means of bits",
        "_units.pyx",
        "x[k] = 2 * x[k] - 1",
        "x[k] = x[k]",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: rectified ones vary as if they were not",
        "_units.pyx",
        "return 1 - (mean - x) * mean",
        "return 1.0",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: normalisers of rectified ones lack their square",
        "_leaves_rectified.h",
        "*x * *x * (REAL)0.5 + log",
        "log",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: only the first blocks of categories that fit are added up",
        "_units.pyx",
        "total += subtract_largest(x, n, g.size)",
        "total = subtract_largest(x, n, g.size)",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: proposals for rectified ones are accepted less often",
        "_leaves_rectified.h",
        "distance * distance * (REAL)0.5",
        "distance * distance",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: two groups of rectified ones draw alike",
        "_units.pyx",
        "noise.purpose, g.start, n_units,",
        "noise.purpose, 0, n_units,",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: small counts are one too many",
        "_leaves_draws.h",
        "p * (mean / count)",
        "p * mean",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: large counts without their skewness",
        "_units.pyx",
        "mean + root * w + (2 + w2) / 6 - w",
        "mean + root * w - w",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: variances for deviations",
        "_units.pyx",
        "deviation[g.start + k] * normals[k]",
        "variance[g.start + k] * normals[k]",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: energies of counts without factorials",
        "_units.pyx",
        "total += lgamma(row[i] + 1)",
        "pass",
        tests=("tests/test_units.py",),
    ),
    Mutation(
        "units: probabilities of categories taken off twice",
        "_units.pyx",
        "left -= x[k]",
        "left -= 2 * x[k]",
        tests=("tests/test_units.py",),
    ),
    # ---- Log Z and log-likelihood ----
    Mutation(
        "log Z: paths of units begin at the model",
        "_unit_paths.py",
        "bias = (1 - beta) * self.base_bias + beta * self.bias",
        "bias = beta * self.base_bias + (1 - beta) * self.bias",
        tests=("tests/test_unit_models.py",),
    ),
    Mutation(
        "log Z: weights on the way back have the wrong sign",
        "_unit_paths.py",
        "log_weights += self.log_weights(states, fields, betas[k], betas[k - 1])",
        "log_weights -= self.log_weights(states, fields, betas[k], betas[k - 1])",
        tests=("tests/test_unit_models.py",),
    ),
    Mutation(
        "log Z: the reverse estimate has the wrong sign",
        "likelihood.py",
        '{"reverse": log_z_base - loss,',
        '{"reverse": log_z_base + loss,',
        tests=("tests/test_likelihood.py",),
    ),
    Mutation(
        "log Z: standard errors too small",
        "likelihood.py",
        "error = weights.std(ddof=1) / np.sqrt(n) if",
        "error = weights.std(ddof=1) / n if",
        tests=("tests/test_likelihood.py",),
    ),
    Mutation(
        "log Z: swaps of the wrong pairs",
        "likelihood.py",
        "- len(replicas.gains) + steps) % 2",
        "- len(replicas.gains) + steps + 1) % 2",
        tests=("tests/test_likelihood.py",),
    ),
    Mutation(
        "log Z: kept although the model has changed",
        "boltzmann/_normaliser.py",
        "if kept is None or kept[0] != digest:",
        "if kept is None:",
        tests=("tests/test_dbm_use.py", "tests/test_unit_rbm.py"),
    ),
    Mutation(
        "log Z: a single draw near rows counts",
        "boltzmann/_normaliser.py",
        "counts = n_effective >= ENOUGH or near_rows > annealed + CERTAIN",
        "counts = True",
        tests=("tests/test_dbm_use.py",),
    ),
    Mutation(
        "log Z: probabilities count as states",
        "boltzmann/_faults.py",
        "total = logsumexp(scores[highest][places], b=states)",
        "total = logsumexp(scores[highest][places])",
        tests=("tests/test_faults.py",),
    ),
    Mutation(
        "faults: units that tell a rare class apart are called constant",
        "boltzmann/_faults.py",
        "for n in (SOME, MANY) if",
        "for n in (SOME, SOME) if",
        tests=("tests/test_faults.py",),
    ),
    Mutation(
        "faults: units that are no bits are looked at as if they were",
        "boltzmann/_faults.py",
        "    if not view.bits:\n        return\n    remedies",
        "    if False:\n        return\n    remedies",
        tests=("tests/test_faults.py",),
    ),
    # ---- Epochs ----
    Mutation(
        "machines begin as those of real features below, turned",
        "boltzmann/dbn.py",
        "bits = k > 1 or all_bits(self.visible)",
        "bits = True",
        tests=("tests/test_dbn.py",),
    ),
    Mutation(
        "hidden units that are to tell labels begin where they say nothing",
        "boltzmann/_classifier_starts.py",
        "weights = weights * (spread / SMALL / np.sqrt(variance.sum()))",
        "weights = weights * 1.0",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "hidden units that are to tell labels begin as wide for few rows",
        "boltzmann/_classifier_starts.py",
        "return min(spread, SPREAD_BY_ROWS",
        "return max(spread, 0 * SPREAD_BY_ROWS",
        tests=("tests/test_rbm_classifier.py",),
    ),
    Mutation(
        "samples start near the last few rows of the training only",
        "samplers/_paths.py",
        '[~state["of_rows"]], state["seen"]',
        '[~state["of_rows"]], state["seen"][-40:]',
        tests=("tests/test_sampling.py",),
    ),
    Mutation(
        "layers of nothing but steps are kept",
        "boltzmann/_net_starts.py",
        "if learned > LOST_SPREAD**2:",
        "if learned > LOST_SPREAD**20:",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "the net is given features of any size as they are",
        "boltzmann/_fine_tuned.py",
        "return inputs if standard is None else Standardised(inputs, standard)",
        "return inputs",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "random fields of real features are as wide as they come",
        "boltzmann/_net_starts.py",
        "W *= SPREAD_OF_REALS / max(",
        "W *= SPREAD_OF_REALS / min(",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "all of many hidden units begin with wide steps",
        "boltzmann/_wide_starts.py",
        "np.arange(len(rates)) < STEPS_A_FEATURE * n_learned",
        "np.arange(len(rates)) < len(rates) * STEPS_A_FEATURE * n_learned",
        tests=("tests/test_unit_rbm.py",),
    ),
    Mutation(
        "real columns have few chains",
        "boltzmann/_unit_rbm.py",
        "least = CHAINS_OF_REALS if self",
        "least = 1 if self",
        tests=("tests/test_unit_rbm.py",),
    ),
    Mutation(
        "features of a classifier do not begin at their means",
        "boltzmann/_classifier_starts.py",
        "visible - weighted_sums",
        "visible - 0 * weighted_sums",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "a single row says how much features vary",
        "boltzmann/_classifier_starts.py",
        "(n_rows * variance + share * (1 - share)) / (n_rows + 1)",
        "np.maximum(variance, 1e-12)",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "hidden units hear of features that have not varied",
        "boltzmann/_visible_scales.py",
        "components = np.where(still, 0.0, components)",
        "components = components + 0.0",
        tests=("tests/test_unit_rbm.py",),
    ),
    Mutation(
        "a single row says which features do not vary",
        "boltzmann/_visible_scales.py",
        """ & (state["n_seen"] > 1)""",
        "",
        tests=("tests/test_unit_rbm.py",),
    ),
    Mutation(
        "features that have not varied have noise of the size of the others",
        "boltzmann/_visible_scales.py",
        """np.square(size) / (state["n_seen"] + 1)""",
        "np.square(size)",
        tests=("tests/test_unit_rbm.py",),
    ),
    Mutation(
        "momentum outlives steps without",
        "boltzmann/_trained.py",
        "if k not in OF_ONE_RUN}",
        "if k}",
        tests=("tests/test_going_on.py",),
    ),
    Mutation(
        "momentum outlives the steps of another optimiser",
        "boltzmann/_fine_tuning_run.py",
        """            **memory,
""",
        "            **{k: v for k, v in memory.items() if v is not None},\n",
        tests=("tests/test_going_on.py",),
    ),
    Mutation(
        "rows held out have a say in where a classifier starts",
        "boltzmann/_trained_classifier.py",
        "mean, n_rows = means_without(X, rows, division.held_out), division.n_rows",
        "mean, n_rows = rows.column_means, division.n_rows",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "labels held out have a say in where a classifier starts",
        "boltzmann/_trained_classifier.py",
        "known = codes[division.training]",
        "known = codes",
        tests=("tests/test_classifier_trainer.py", "tests/test_rbm_classifier.py"),
    ),
    Mutation(
        "constant targets begin with weights",
        "boltzmann/dbn_regressor.py",
        """params[-2][:, np.ptp(state["first_targets"], axis=0) == 0] = 0""",
        "pass",
        tests=("tests/test_dbn_classifier.py",),
    ),
    Mutation(
        "entries outside a CSR matrix are read",
        "_rows.pyx",
        "last.max(initial=0) >= max(1, X.shape[1])",
        "last.max(initial=0) > max(1, X.shape[1])",
        tests=("tests/test_bad_inputs.py",),
    ),
    Mutation(
        "real units begin with weights that have no distribution",
        "boltzmann/_wide_starts.py",
        "return components * (LARGEST_NORM / max(LARGEST_NORM, norm))",
        "return components",
        tests=("tests/test_unit_rbm.py",),
    ),
    Mutation(
        "biases that diverged are not looked at",
        "_training.py",
        "check_finite(norm if finite else np.nan, rates[0])",
        "check_finite(norm, rates[0])",
        tests=("tests/test_training.py",),
    ),
    Mutation(
        "the inverse of more components is that of their directions",
        "factors/ica.py",
        "np.linalg.pinv(scale[:, np.newaxis] * W)",
        "(np.linalg.pinv(W) / scale)",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "epochs: rates do not fall to nothing",
        "_training.py",
        "lambda done: 1.0 - done}",
        "lambda done: 1.0 - done / 2}",
        tests=("tests/test_training.py",),
    ),
    Mutation(
        "epochs: rows held out are trained on",
        "_training.py",
        "self.training = np.delete(numbers, self.held_out)",
        "self.training = numbers",
        tests=("tests/test_training.py", "tests/test_monitoring.py"),
    ),
    Mutation(
        "epochs: means of rows held out, too",
        "_training.py",
        "total -= chunk.n_rows * chunk.column_means",
        "pass",
        tests=("tests/test_training.py", "tests/test_monitoring.py"),
    ),
    Mutation(
        "epochs: always the same order",
        "_training.py",
        "np.random.default_rng([key, step]).permutation(rows)",
        "np.random.default_rng([key, 0]).permutation(rows)",
        tests=("tests/test_training.py", "tests/test_monitoring.py"),
    ),
    Mutation(
        "epochs: the mean of all rows is that of the last part",
        "_training.py",
        "mean + (more - mean) * (n_more / n), n",
        "more, n",
        tests=("tests/test_training.py", "tests/test_going_on.py"),
    ),
    Mutation(
        "epochs: chains begin anew",
        "boltzmann/_starts.py",
        "return None if chains is None or len(chains) != n_chains else chains",
        "return None",
        tests=("tests/test_training.py", "tests/test_going_on.py"),
    ),
    Mutation(
        "epochs: a loss within the tolerance is progress",
        "_stopping.py",
        "any(new < old - self.tol for",
        "any(new < old + self.tol for",
        tests=("tests/test_monitoring.py",),
    ),
    Mutation(
        "epochs: patience does not begin anew",
        "_stopping.py",
        "self.waited = 0 if progress else self.waited + 1",
        "self.waited = self.waited + 1",
        tests=("tests/test_monitoring.py",),
    ),
    # ---- Missing values ----
    Mutation(
        "missing: observed values are drawn, too",
        "_missing.py",
        "part[self.missing] = values[self.missing]",
        "part[:] = values",
        tests=("tests/test_missing.py",),
    ),
    Mutation(
        "missing: the same draws in every epoch",
        "_missing.py",
        "self.n_steps += 1",
        "pass",
        tests=("tests/test_missing.py",),
    ),
    # ---- Linear factor models ----
    Mutation(
        "factors: deviations from a mean of few digits",
        "factors/_gaussian.py",
        "deviation -= rest",
        "deviation -= 0 * rest",
        tests=("tests/test_factor_analysis.py",),
    ),
    Mutation(
        "factors: factors have no variance given the features",
        "factors/_em.py",
        "zz[:-1, :-1] += n_rows * gaussian.factor_covariance()",
        "pass",
        tests=("tests/test_factor_analysis.py", "tests/test_factor_missing.py"),
    ),
    Mutation(
        "factors: nor with missing values",
        "factors/_em.py",
        "products[:, :-1, :-1] += part.of_rows()",
        "pass",
        tests=("tests/test_factor_missing.py",),
    ),
    Mutation(
        "factors: a row counts as one, however many it stands for",
        "factors/_gaussian.py",
        "found *= self.ones**2",
        "pass",
        tests=("tests/test_factor_missing.py",),
    ),
    Mutation(
        "ica: a density leans as its source did before it got its sign",
        "factors/_ica_whitening.py",
        "MIRRORED.get(name, name) if sign < 0 else name",
        "name",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "ica: saddles are taken for maxima",
        "factors/_ica_likelihood.py",
        "    if least[i, j] >= 0:\n",
        "    if least[i, j] < 9:\n",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "factors: the likelihood lacks a constant",
        "factors/_profile.py",
        "np.sum(np.log(kept) + 1 - kept)",
        "np.sum(np.log(kept) - kept)",
        tests=("tests/test_factor_analysis.py",),
    ),
    Mutation(
        "factors: noise variances move away",
        "factors/_profile.py",
        "gradient = (noise + explained - data.variances) / noise",
        "gradient = (noise - explained - data.variances) / noise",
        tests=("tests/test_factor_analysis.py",),
    ),
    Mutation(
        "factors: the turn the other way",
        "factors/_rotations.py",
        "np.where(worth, np.arctan2(sine, cosine) / 4, 0.0)",
        "np.where(worth, -np.arctan2(sine, cosine) / 4, 0.0)",
        tests=("tests/test_factor_analysis.py",),
    ),
    Mutation(
        "factors: no penalty of parameters",
        "factors/selection.py",
        "model.score(X) - 0.5 * n_parameters",
        "model.score(X) - 0.05 * n_parameters",
        tests=("tests/test_selection.py",),
    ),
    Mutation(
        "slow features: differences between sequences",
        "factors/_slowness.py",
        "differences[firsts[low:high] - 1 - batch.start] = 0",
        "pass",
        tests=("tests/test_slow_features.py",),
    ),
    Mutation(
        "slow features: differences between sequences of few frames",
        "factors/_slowness.py",
        "np.delete(np.diff(white, axis=0), self.firsts - 1, axis=0)",
        "np.diff(white, axis=0)",
        tests=("tests/test_slow_features.py",),
    ),
    Mutation(
        "ICA: a density does not sum to 1",
        "factors/_ica_densities.py",
        "self.log_norm -= float(np.log(weight * (1 - weight))) / 2",
        "pass",
        tests=("tests/test_ica.py",),
    ),
    Mutation(
        "sparse codes: residuals of the wrong sign",
        "_sparse_codes.pyx",
        "= -room.code[j]",
        "= room.code[j]",
        tests=("tests/test_sparse_coding.py",),
    ),
    Mutation(
        "sparse codes: a gap far from the goal will do",
        "_sparse_codes.pyx",
        "if gap <= goal or",
        "if gap <= 1000 * goal or",
        tests=("tests/test_sparse_coding.py",),
    ),
    Mutation(
        "sparse codes: nothing is forgotten",
        "factors/_dictionary.py",
        "kept = (1 - n_rows / self.n_seen) ** FORGETTING",
        "kept = 1.0",
        tests=("tests/test_sparse_coding.py",),
    ),
]


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="words in the names of mutations")
    parser.add_argument("--list", action="store_true", help="print names and stop")
    parser.add_argument("--check", action="store_true", help="check texts and stop")
    arguments = parser.parse_args()
    mutations = [
        mutation
        for mutation in MUTATIONS
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


if __name__ == "__main__":
    sys.exit(main())

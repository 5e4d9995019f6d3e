# What the trainers share: the minibatches of an epoch, swept by a team of threads.
from cython.parallel cimport parallel

from ._openmp cimport omp_get_num_threads, omp_get_thread_num
from ._panels cimport address, aligned
from ._simd cimport PANEL_BYTES

from ._products import single_threaded_products


cdef class Minibatches:
    """The minibatches of a machine in training.

    A trainer that derives from it sets the attributes of `_minibatches.pxd` and says
    what a sweep is (`_sweep`). A pass is `n_gibbs_steps` sweeps, a minibatch `n_passes`
    passes, the last of which takes the step; training can stop after any sweep.
    """

    cdef char *_bytes(self, str name, Py_ssize_t n_bytes) except NULL:
        self.memory[name] = aligned(max(n_bytes, PANEL_BYTES))
        return address(self.memory[name])

    @property
    def sweeps_per_batch(self):
        return self.n_passes * self.n_gibbs_steps

    @property
    def next_step(self):
        """First step of the random counter that no sweep has drawn from."""
        return self.step + (self.n_gibbs_steps if self.unfinished else 0)

    def found(self):
        """What the epoch has found of its rows, by the names of the history."""
        return {}

    def begin_epoch(self, order, rates):
        """Set the order in which `run` shows the rows, and the rate of each batch."""
        self.order, self.rates = self.rows.epoch(order, rates, self.batch_size)

    def n_sweeps(self):
        """How many sweeps an epoch has."""
        n_batches = (self.order.shape[0] - 1) // self.batch_size + 1
        return n_batches * self.sweeps_per_batch

    def run(self, Py_ssize_t start, Py_ssize_t stop, int n_threads=1):
        """Do sweeps start..stop of the epoch.

        Sweep s belongs to minibatch s // sweeps_per_batch, which trains at its
        rate. At most `self.n_threads` threads do it.
        """
        n_threads = max(1, min(n_threads, self.n_threads))
        if not 0 <= start <= stop <= self.n_sweeps():
            raise ValueError(f"there are no sweeps {start}..{stop}")
        cdef Py_ssize_t s
        cdef int thread, team
        with single_threaded_products, nogil, parallel(num_threads=n_threads):
            thread = omp_get_thread_num()
            team = omp_get_num_threads()
            for s in range(start, stop):
                self._sweep(self._place(s), thread, team)
        self.unfinished = stop % self.sweeps_per_batch != 0

    cdef Place _place(self, Py_ssize_t s) noexcept nogil:
        """Where sweep s is in the epoch."""
        cdef Place now
        now.number = s % self.n_gibbs_steps
        now.last = now.number == self.n_gibbs_steps - 1
        now.part = s // self.n_gibbs_steps % self.n_passes
        now.batch = s // self.n_gibbs_steps // self.n_passes
        now.first = now.batch * self.batch_size
        now.n_rows = min(self.batch_size, self.order.shape[0] - now.first)
        now.n_chains = self.n_chains if self.persistent else now.n_rows
        return now

    cdef void _sweep(self, Place now, int thread, int team) noexcept nogil:
        """One sweep, as one thread of a team does it; all threads keep step."""

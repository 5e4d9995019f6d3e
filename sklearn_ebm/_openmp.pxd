# OpenMP where there is OpenMP, and its serial meaning where there is not.
cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #define SKLEARN_EBM_OPENMP 1
    /* Binds to the parallel region that calls it. (A team of one has nobody to wait
       for, but a barrier of its own would still call the operating system.) */
    static inline void team_barrier(void)
    {
        if (omp_get_num_threads() > 1) {
            _Pragma("omp barrier")
        }
    }
    #else
    #define SKLEARN_EBM_OPENMP 0
    #define omp_get_max_threads() 1
    #define omp_get_num_threads() 1
    #define omp_get_thread_num() 0
    static inline void team_barrier(void) {}
    #endif
    """
    const bint SKLEARN_EBM_OPENMP
    int omp_get_max_threads() noexcept nogil
    int omp_get_num_threads() noexcept nogil
    int omp_get_thread_num() noexcept nogil
    void team_barrier() noexcept nogil


cdef inline Py_ssize_t bound(
    Py_ssize_t n, Py_ssize_t part, Py_ssize_t parts
) noexcept nogil:
    """Where part `part` of n pieces of work starts, and the part before ends.

    (Returned, not stored through a pointer: Cython makes a variable private to
    a thread only where it sees an assignment.)
    """
    return n * part // parts

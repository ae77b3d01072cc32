"""Recording of MPI programs: a library that is preloaded into the job, and wrappers compiled for the MPI at hand."""

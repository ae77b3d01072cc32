"""C and C++ sources, read by libclang: nothing is compiled or run."""

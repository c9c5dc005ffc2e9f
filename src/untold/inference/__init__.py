"""Models laid out for translation on CPUs, with kernels in C where they compile."""

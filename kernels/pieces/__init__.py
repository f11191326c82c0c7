"""Functions in Triton's language that several kernels are made of."""

"""What Triton kernels share: pieces of a kernel, and what its launch works out beforehand."""

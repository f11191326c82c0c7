"""What Triton kernels that read packed weights share: tiles of a weight, decoded on the way to a matrix product."""

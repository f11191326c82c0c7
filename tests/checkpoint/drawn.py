"""Random parts of packed weights."""

import torch

Parts = dict[str, torch.Tensor]


def draw(shape: tuple[int, ...], low: int = 0, high: int = 256, dtype: torch.dtype = torch.uint8, seed: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed + 7 * sum(shape))).to(dtype)


def words(*shape: int, seed: int = 0) -> torch.Tensor:
    return draw(shape, -(2**31), 2**31, torch.int32, seed)


def scales(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) * 0.1 + 1e-3).to(dtype)


def sample(name: str) -> tuple[Parts, tuple[int, int], tuple[int, ...]]:
    """Parts, shape and block of one weight of each format."""
    data = draw((96, 32))
    return {
        "mxfp4": ({"data": data, "scale": draw((96, 2), 110, 130)}, (96, 64), (1, 32)),
        "mxfp8": ({"data": data.view(torch.float8_e4m3fn), "scale": draw((96, 1), 110, 130)}, (96, 32), (1, 32)),
        "nvfp4": ({"data": data, "scale": draw((96, 4), 60, 90).view(torch.float8_e4m3fn), "factor": torch.ones(1)}, (96, 64), (1, 16)),
        "int4": ({"data": words(96, 8), "scale": scales(96, 2), "zeros": words(12, 2)}, (96, 64), (1, 32)),
        "awq": ({"data": words(64, 12), "scale": scales(2, 96), "zeros": words(2, 12)}, (96, 64), (1, 32)),
        "gptq": ({"data": words(8, 96), "scale": scales(2, 96), "zeros": words(2, 12)}, (96, 64), (1, 32)),
        "fp8": ({"data": data.view(torch.float8_e4m3fn), "scale": scales(96, 1)}, (96, 32), ()),
    }[name]

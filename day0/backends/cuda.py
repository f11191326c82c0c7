"""NVIDIA cards, through a build of torch that has CUDA."""

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

from day0.backends import cpu
from day0.spec.lazy import torch
from day0.spec.machine import Backend, Card, Machine

CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76  # CUdevice_attribute of the driver's interface


def probe() -> Machine | None:
    """The visible cards, as the driver describes the first of them; None without a driver, a card, or a torch that can use them."""
    if not built_with("torch_cuda"):
        return None
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    return Machine(
        name="this-machine",
        backend="cuda",
        card=_card(driver),
        cards=count.value,
        cards_per_node=count.value,
        host_memory=cpu.usable_memory(),
        declared=False,
    )


def _card(driver: Any) -> Card:
    handle, major, minor, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(100)
    failed = (
        driver.cuDeviceGet(ctypes.byref(handle), 0)
        or driver.cuDeviceGetName(name, len(name), handle)
        or driver.cuDeviceTotalMem_v2(ctypes.byref(total), handle)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), CAPABILITY_MAJOR, handle)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), CAPABILITY_MINOR, handle)
    )
    assert not failed, f"the driver counts a card that it does not describe (CUresult {failed})"
    arch = f"sm_{major.value}{minor.value}"
    return Card(name=name.value.decode(), memory=total.value, arch=arch, evidence={"memory": "measured", "arch": "measured"})


def built_with(library: str) -> bool:
    """Whether the installed torch carries a library, found without importing torch."""
    found = importlib.util.find_spec("torch")
    return found is not None and found.origin is not None and any((Path(found.origin).parent / "lib").glob(f"*{library}*"))


def device(rank: int) -> Any:
    return torch.device("cuda", rank % max(1, torch.cuda.device_count()))


def synchronise(device: Any) -> None:
    torch.cuda.synchronize(device)


def memory(device: Any) -> dict[str, int]:
    """What torch's allocator has handed out, its peak since `reset_peak`, and the card's memory."""
    return {
        "used": torch.cuda.memory_allocated(device),
        "peak": torch.cuda.max_memory_allocated(device),
        "total": torch.cuda.mem_get_info(device)[1],
    }


def reset_peak(device: Any) -> None:
    torch.cuda.reset_peak_memory_stats(device)


BACKEND = Backend(
    name="cuda",
    providers=("triton", "torch"),
    probe=probe,
    device=device,
    synchronise=synchronise,
    memory=memory,
    reset_peak=reset_peak,
    collectives="nccl",
)

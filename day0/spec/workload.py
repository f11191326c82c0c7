"""What a plan is asked for."""

import re
from typing import Literal

from day0.spec.errors import Day0Error
from day0.spec.record import record

Residency = Literal["resident", "streamed"]


@record
class Workload:
    """Sequences that run at once, and how; None leaves the choice to the plan."""

    context: int | None = None  #: tokens of the longest sequence, prompt and answer together
    batch: int | None = None  #: sequences at once
    dtype: str | None = None  #: compute type
    weights: Residency = "resident"  #: kept in memory, or read layer by layer
    page_size: int = 16  #: tokens of a page of state
    chunk: int = 512  #: tokens of prompts that one step reads at the most
    vision: bool = False  #: whether images are taken: the tower for them is loaded
    image_patches: int | None = None  #: patches of the largest image; None: what the release's preprocessor makes at the most


def token_count(text: str) -> int:
    """A number of tokens as people write it: 4096, "128k" (131072), "1m" (1048576)."""
    match = re.fullmatch(r"(\d{1,12})\s*([km]?)", text.strip().lower())
    if not match or int(match[1]) == 0:
        raise Day0Error(f"{text!r} is not a number of tokens", hint="such as 4096, 128k or 1m")
    return int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2]]

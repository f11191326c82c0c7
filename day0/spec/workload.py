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
    kv_dtype: str | None = None  #: type that keys, values and latents are kept in
    engine: str = "day0"  #: whose layout of memory is planned
    tp: int | None = None  #: ranks that cut heads
    ep: int | None = None  #: ranks that share the experts
    pp: int | None = None  #: stages of the pipeline
    dp: int | None = None  #: copies of attention
    cp: int | None = None  #: ranks that share the tokens of replicated state
    redundant: int = 0  #: experts held a second time
    prediction: bool = False  #: whether extra prediction layers are loaded
    vision: bool | None = None  #: whether towers of other modalities are loaded
    images: int = 1  #: that another engine encodes at once, where towers are loaded
    image_tokens: int | None = None  #: of the largest image; None: what the release's preprocessor makes at the most
    utilisation: float | None = None  #: share of a card that may be filled
    host_memory: int | None = None  #: bytes of the host's memory that weights may take


KV_DTYPES = {"bf16": "bfloat16", "fp16": "float16", **{name: name for name in ("bfloat16", "float16", "float32", "fp8", "int8")}}


def kv_type(name: str) -> str:
    """The canonical name of a type that state is kept in."""
    if name.lower() not in KV_DTYPES:
        raise Day0Error(f"state cannot be kept in {name!r}", hint=f"one of {', '.join(KV_DTYPES)}")
    return KV_DTYPES[name.lower()]


def token_count(text: str) -> int:
    """A number of tokens as people write it: 4096, "128k" (131072), "1m" (1048576)."""
    match = re.fullmatch(r"(\d{1,12})\s*([km]?)", text.strip().lower())
    if not match or int(match[1]) == 0:
        raise Day0Error(f"{text!r} is not a number of tokens", hint="such as 4096, 128k or 1m")
    return int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2]]

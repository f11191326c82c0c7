"""State can be kept in the type that was asked for, or that the release was calibrated for.

Why: scales of a type that nothing reads are dropped without a word, and answers drift; or the plan halves what the engine keeps whole.
Remedy: `--kv-dtype` bf16, fp8 or int8; for this project's engine, leave it out.
"""

from collections.abc import Iterator
from typing import Any

from day0.engine.demand import Demand
from day0.spec.check import check
from day0.spec.finding import Finding


def run(demand: Demand) -> Iterator[Finding]:
    load, scheme = demand.workload, released(demand.release.checkpoint.config.data)
    bits = scheme.get("num_bits", 8)
    if bits != 8:
        found, expected = f"kv_cache_scheme with num_bits {bits}", "8 bits, or none"
        hint = "no engine that is planned here has it; calibrate the release for fp8, or plan with `--kv-dtype bf16`"
        status = "warn" if load.kv_dtype else "fail"
        yield Finding(code=CHECK.code, status=status, subject="state", expected=expected, found=found, hint=hint)  # type: ignore[arg-type]
    if load.engine == "day0" and load.kv_dtype not in (None, load.dtype):
        hint = "`--engine vllm` or `--engine sglang` plan for engines that have it"
        yield Finding(code=CHECK.code, status="warn", subject="state", expected=load.dtype, found=load.kv_dtype, hint=hint)


def released(config: dict[str, Any]) -> dict[str, Any]:
    """How the release's state was calibrated; {} where it does not say."""
    for place in (config, config.get("text_config")):
        stated = place.get("quantization_config") if isinstance(place, dict) else None
        scheme = stated.get("kv_cache_scheme") if isinstance(stated, dict) else None
        if isinstance(scheme, dict):
            return scheme
    return {}


CHECK = check(__name__, __doc__, run, scope="plan")

"""Published figures of memory (tests/plan/truth.yaml) by the planner, and by two other tools that can be installed beside it.

    pip install aiconfigurator==0.12.0 hf-mem==0.5.6
    python bench/plan.py

Each tool answers the rows that it can without a network: what a token of state takes, what a number of tokens or a sequence takes, and the
weights of a card. hf-mem reads weights from the Hub alone, so it answers for state. A tool that is not installed answers nothing.
"""

import copy
import logging
import statistics
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.plan import truth

GIB = 1 << 30
NAMES = {  # model of the figures → its name on the Hub
    "deepseek-v3": "deepseek-ai/DeepSeek-V3", "deepseek-v3.2": "deepseek-ai/DeepSeek-V3.2", "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B", "gpt-oss-120b": "openai/gpt-oss-120b", "kimi-k2.5": "moonshotai/Kimi-K2.5",
    "kimi-k3": "moonshotai/Kimi-K3", "glm-5.2-fp8": "zai-org/GLM-5.2-FP8", "deepseek-v4-pro": "deepseek-ai/DeepSeek-V4-Pro",
    "qwen3-coder-480b": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
}  # fmt: skip
VERSIONS = {"vllm": "0.24.0", "sglang": "0.5.14"}  # engines of aiconfigurator's data


SYSTEMS = {"h100_sxm": "h100_sxm", "b300_sxmx8": "b300_sxm"}  # machine of a figure → aiconfigurator's; H200 where it has none, for weights alike


@cache
def configured(model: str, system: str, engine: str, tp: int, kv: str) -> dict[str, Any]:
    """aiconfigurator's estimate for one card."""
    from aiconfigurator_core.sdk.memory import estimate_kv_cache

    sizes = {"max_num_tokens": 8192, "max_batch_size": 64, "memory_fraction_kind": "of_total", "memory_fraction_value": 0.9}
    found: dict[str, Any] = estimate_kv_cache(
        NAMES[model], system, engine, VERSIONS[engine], **sizes, tp_size=tp, moe_tp_size=1, moe_ep_size=tp, kvcache_quant_mode=kv,
        gpu_memory_capacity_bytes_override=1 << 44,
    )  # fmt: skip
    return found


def by_aiconfigurator(row: dict[str, Any]) -> float | None:
    """On one card its memory is taken as unlimited, so that it answers for large models too."""
    ask = row["ask"]
    system, engine, tp = SYSTEMS.get(ask.get("machine", ""), "h200_sxm"), ask.get("engine", "vllm"), ask.get("tp", 1)
    kv = "fp8" if ask.get("kv_dtype") == "fp8" else "bfloat16"
    if row["figure"] == "weights_gib":
        return float(configured(row["model"], system, engine, tp, kv)["memory_breakdown"]["weights_bytes"]) / GIB
    return from_token(row, float(configured(row["model"], system, engine, 1, kv)["kv_size_per_token_bytes"]))


def by_hf_mem(row: dict[str, Any]) -> float | None:
    from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size

    config = copy.deepcopy(truth.models()[row["model"]])
    config = config.get("text_config", config)
    kind = "F8_E4M3" if row["ask"].get("kv_dtype") == "fp8" else "BF16"
    return from_token(row, compute_safetensors_kv_cache_size(config, kind, 1 << 20) / (1 << 20))


def from_token(row: dict[str, Any], token: float) -> float | None:
    """The row's figure where it follows from the bytes of a token; not where later tokens take fewer."""
    if "compress_ratios" in truth.models()[row["model"]]:
        return None
    given, context = row.get("given", {}), row["ask"].get("context", 0)
    match row["figure"]:
        case "token":
            return token
        case "tokens_in":
            return given["gib"] * GIB / token
        case "replicas":
            return 8 * token * given["tokens"]
        case "state_gib":
            return context * token / GIB
    return None


def answered(tool: Callable[[dict[str, Any]], float | None], row: dict[str, Any]) -> float | None:
    """Its figure; None for what it cannot say or is not installed to say."""
    try:
        return tool(row)
    except Exception:  # other people's code, asked about models that it may not know
        return None


def main() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    tools = {"aiconfigurator": by_aiconfigurator, "hf-mem": by_hf_mem}
    errors: dict[str, list[tuple[str, float, float]]] = {name: [] for name in tools}
    rows = [row for row in truth.rows() if row.get("figure") in ("token", "tokens_in", "replicas", "state_gib", "weights_gib")]
    print(f"| {'figure':30} | {'published':>15} | {'day0':>9} | " + " | ".join(f"{name:>14}" for name in tools) + " |")
    print("|---|--:|--:|" + "--:|" * len(tools))
    for row in rows:
        own = truth.answer(row).error
        cells = []
        for name, tool in tools.items():
            found = answered(tool, row)
            error = None if found is None else 100 * (found / row["value"] - 1)
            cells.append("" if error is None else f"{error:+.2f} %")
            if error is not None and own is not None:
                errors[name].append((row["id"], own, error))
        print(f"| {row['id']:30} | {row['value']:>15} | {own:+8.2f} % | " + " | ".join(f"{cell:>14}" for cell in cells) + " |")
    for name, found in errors.items():
        if found:
            mine, other = ([abs(pair[at]) for pair in found] for at in (1, 2))
            both = [f"median {statistics.median(each):.2f} %, worst {max(each):.2f} %" for each in (mine, other)]
            print(f"\n{len(found)} rows that {name} answers: day0 {both[0]}; {name} {both[1]}")


if __name__ == "__main__":
    main()

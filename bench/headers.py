"""`day0 inspect` on headers of a full-size release, beside what others need for less, and plans of it: time and memory of whole processes, medians.

    python bench/headers.py [FOLDER] [--runs 5]

FOLDER holds a release, or its headers in sparse files; without it, one of DeepSeek-V3's names and shapes is written (91,155 tensors in 141
shards; sparse files, 20 MB on disk). Beside the whole command: a loop of `safetensors.safe_open` that keeps names, shapes and types, once with
numpy and once with torch as its framework; headers read and parsed with `json`; and, where hf-mem is installed, the whole of it, once: it reads
from a hub alone, so its requests are answered from the folder, without a network. Then `day0 plan-memory` for five machines, from the report.
Python keeps its compiled files, as it does where day0 is installed. Each command is one process: the memory is all that it takes.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
SHARD = 5 * 10**9  # bytes of data
OPEN = """
from safetensors import safe_open
for path in paths:
    with safe_open(path, {framework!r}) as shard:
        for name in shard.keys():
            part = shard.get_slice(name)
            kept[name] = part.get_shape(), part.get_dtype()
"""
PARSE = """
import json
for path in paths:
    with open(path, "rb") as file:
        kept.update(json.loads(file.read(int.from_bytes(file.read(8), "little"))))
"""
HF_MEM = """
import httpx2
from pathlib import Path
folder = Path(paths[0]).parent

async def answer(self, request):
    if request.url.path.startswith("/api/"):
        return httpx2.Response(200, json=[{"path": path.name, "type": "file"} for path in folder.iterdir()], request=request)
    first, _, last = request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
    with open(folder / request.url.path.rpartition("/")[2], "rb") as file:
        file.seek(int(first))
        return httpx2.Response(206, content=file.read(int(last) + 1 - int(first) if last else -1), request=request)

httpx2.AsyncHTTPTransport.handle_async_request = answer
from hf_mem import run
run(model_id="owner/name")
"""
ONCE = "hf-mem"  # takes longer than all others together
MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
ran = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, ran.returncode)
"""
LOOPS = {"safe_open, numpy": OPEN.format(framework="np"), "safe_open, torch": OPEN.format(framework="pt"), "json": PARSE, "hf-mem": HF_MEM}
MACHINES = ("b300x8", "b200x16", "ascend_910cx32", "h200x1", "")  # "": this one
CONFIG = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 129280, "num_attention_heads": 128,
    "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 163840,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
NORMS = (("input_layernorm", 7168), ("post_attention_layernorm", 7168), ("self_attn.q_a_layernorm", 1536), ("self_attn.kv_a_layernorm", 512))
Tensor = tuple[str, str, list[int], int]  # name, type, shape, bytes


def tensors() -> Iterator[Tensor]:
    """Of DeepSeek-V3 without its prediction layer (huggingface.co/deepseek-ai/DeepSeek-V3, config.json)."""
    yield from plain("model.embed_tokens.weight", [129280, 7168])
    for i in range(61):
        layer = f"model.layers.{i}"
        for name, width in NORMS:
            yield from plain(f"{layer}.{name}.weight", [width])
        for name, shape in (("q_a", [1536, 7168]), ("q_b", [24576, 1536]), ("kv_b", [32768, 512]), ("o", [7168, 16384])):
            yield from packed(f"{layer}.self_attn.{name}_proj.weight", shape)
        yield from packed(f"{layer}.self_attn.kv_a_proj_with_mqa.weight", [576, 7168])
        if i < 3:
            yield from network(f"{layer}.mlp", 18432)
            continue
        yield from plain(f"{layer}.mlp.gate.weight", [256, 7168])
        yield f"{layer}.mlp.gate.e_score_correction_bias", "F32", [256], 1024
        yield from network(f"{layer}.mlp.shared_experts", 2048)
        for e in range(256):
            yield from network(f"{layer}.mlp.experts.{e}", 2048)
    yield from plain("model.norm.weight", [7168])
    yield from plain("lm_head.weight", [129280, 7168])


def plain(name: str, shape: list[int]) -> Iterator[Tensor]:
    yield name, "BF16", shape, 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def packed(name: str, shape: list[int]) -> Iterator[Tensor]:
    grid = [-(-side // 128) for side in shape]
    yield name, "F8_E4M3", shape, shape[0] * shape[1]
    yield f"{name}_scale_inv", "F32", grid, 4 * grid[0] * grid[1]


def network(place: str, width: int) -> Iterator[Tensor]:
    for name, shape in (("gate", [width, 7168]), ("up", [width, 7168]), ("down", [7168, width])):
        yield from packed(f"{place}.{name}_proj.weight", shape)


def write(folder: Path) -> None:
    """Configuration, index, and shards whose data is a hole."""
    shards: list[dict[str, dict[str, object]]] = [{}]
    end = 0
    for name, dtype, shape, size in tensors():
        if end + size > SHARD and shards[-1]:
            shards.append({})
            end = 0
        shards[-1][name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    weight_map = {}
    for number, entries in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        weight_map |= dict.fromkeys(entries, file)
        text = json.dumps(entries, separators=(",", ":")).encode()
        with open(folder / file, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            out.truncate(8 + len(text) + max(entry["data_offsets"][1] for entry in entries.values()))  # type: ignore[index]
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2))
    (folder / "config.json").write_text(json.dumps(CONFIG))


def measured(command: list[str]) -> tuple[float, float]:
    """(seconds, MiB at most) of a process."""
    cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True, env=cached)
    seconds, memory, returned = ran.stdout.split()
    if returned not in ("0", "1"):
        raise SystemExit(f"{' '.join(command)[:200]} failed with {returned}")
    return float(seconds), float(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch) / "DeepSeek-V3"
        if arguments.folder is None:
            folder.mkdir()
            write(folder)
        start = f"import glob; paths = sorted(glob.glob({str(folder / '*.safetensors')!r})); kept = {{}}\n"
        day0 = [sys.executable, "-m", "day0"]
        commands = {"day0 inspect": [*day0, "inspect", str(folder), "--reports", f"{scratch}/reports", "--json"]}
        for name, loop in LOOPS.items():
            if name != "hf-mem" or importlib.util.find_spec("hf_mem"):
                commands[name] = [sys.executable, "-c", start + loop]
        for machine in MACHINES:
            wanted = ["--machine", machine] if machine else []
            commands[f"plan {machine or 'this machine'}"] = [*day0, "plan-memory", *wanted, "--reports", f"{scratch}/reports"]
        found = {name: [] for name in commands}
        for number in range(arguments.runs):
            for name, command in commands.items():
                if name != ONCE or number == 0:
                    found[name].append(measured(command))
    print(f"{folder.name}, median of {arguments.runs}, one after the other in turn")
    for name, runs in found.items():
        print(f"{name:20} {median(run[0] for run in runs):6.2f} s {median(run[1] for run in runs):6.0f} MiB")


if __name__ == "__main__":
    main()

"""One layer of Kimi K3 at full width, with delta attention and 896 experts in MXFP4, validated on this machine; and the memory it takes.

    python bench/full_width.py FOLDER [--tokens 6]

FOLDER receives a checkpoint of the released widths with one dense and one sparse layer: sparse files with random bytes for the weights of
the sparse layer and for those experts that the tokens are routed to, holes elsewhere. transformers has no class for this model; the layer
is compared with the plain reference of tests/families, which is written from the published formulas in float64 and shares nothing with day0.
"""

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day0.community.bench import draw
from day0.engine.probe import Probe
from day0.engine.release import Release
from day0.spec.registry import backends
from day0.spec.reports.validate import ValidateReport
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.map_ops import map_ops
from day0.stages.plan_memory import plan_memory
from day0.stages.validate import validate
from tests.mutation.kimi_k3 import PlainReference
from tests.zoo import kimi_k3

LAYER, HIDDEN, HEADS, DIM, EXPERTS, LATENT, WIDTH = 1, 7168, 96, 128, 896, 3584, 3072  # of the release
TEXT = kimi_k3.TEXT | dict(
    vocab_size=4096, hidden_size=HIDDEN, attn_res_block_size=12, num_hidden_layers=2, intermediate_size=2048, moe_intermediate_size=WIDTH,
    routed_expert_hidden_size=LATENT, num_experts=EXPERTS, num_experts_per_token=16, num_attention_heads=96, num_key_value_heads=96,
    q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, max_position_embeddings=4096,
    quantization_config=kimi_k3.PACKED, linear_attn_config=kimi_k3.TEXT["linear_attn_config"] | dict(
        kda_layers=[1, 2], full_attn_layers=[], num_heads=HEADS, head_dim=DIM),
)  # vocabulary, depth and the dense layer are small: they are not looked at
CONFIG = dict(model_type="kimi_k3", text_config=TEXT, tie_word_embeddings=False, dtype="bfloat16", vision_config=dict(patch_size=2))
SHARD, PIECE = "model.safetensors", 1 << 22
BYTES = {"BF16": 2, "F32": 4, "U8": 1}


def shapes() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(name, type, shape) of every stored tensor."""
    yield from _plain("model.embed_tokens.weight", (TEXT["vocab_size"], HIDDEN))
    yield from _plain("model.norm.weight", (HIDDEN,))
    yield from _plain("lm_head.weight", (TEXT["vocab_size"], HIDDEN))
    yield from _mix("model.output_attn_res")
    for i in range(TEXT["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield from _plain(f"{layer}{norm}.weight", (HIDDEN,))
        yield from _mix(f"{layer}self_attention_res")
        yield from _mix(f"{layer}mlp_res")
        yield from _delta(f"{layer}self_attn.")
        yield from (_network(f"{layer}mlp.", TEXT["intermediate_size"]) if i == 0 else _mixture(f"{layer}block_sparse_moe."))


def _plain(name: str, shape: tuple[int, ...], kind: str = "BF16") -> Iterator[tuple[str, str, tuple[int, ...]]]:
    yield f"language_model.{name}", kind, shape


def _mix(place: str) -> Iterator[Any]:
    yield from _plain(f"{place}_norm.weight", (HIDDEN,))
    yield from _plain(f"{place}_proj.weight", (1, HIDDEN))


def _delta(at: str) -> Iterator[Any]:
    rows = HEADS * DIM
    for name in "qkvg":
        yield from _plain(f"{at}{name}_proj.weight", (rows, HIDDEN))
    for name in "qkv":
        yield from _plain(f"{at}{name}_conv1d.weight", (rows, 1, 4))
    yield from _plain(f"{at}f_a_proj.weight", (DIM, HIDDEN))
    yield from _plain(f"{at}f_b_proj.weight", (rows, DIM))
    yield from _plain(f"{at}b_proj.weight", (HEADS, HIDDEN))
    yield from _plain(f"{at}A_log", (128,), "F32")
    yield from _plain(f"{at}dt_bias", (rows,), "F32")
    yield from _plain(f"{at}o_norm.weight", (DIM,))
    yield from _plain(f"{at}o_proj.weight", (HIDDEN, rows))


def _network(at: str, width: int) -> Iterator[Any]:
    for name, shape in (("gate_proj", (width, HIDDEN)), ("up_proj", (width, HIDDEN)), ("down_proj", (HIDDEN, width))):
        yield from _plain(f"{at}{name}.weight", shape)


def _mixture(at: str) -> Iterator[Any]:
    yield from _plain(f"{at}gate.weight", (EXPERTS, HIDDEN))
    yield from _plain(f"{at}gate.e_score_correction_bias", (EXPERTS,), "F32")
    yield from _plain(f"{at}routed_expert_down_proj.weight", (LATENT, HIDDEN))
    yield from _plain(f"{at}routed_expert_up_proj.weight", (HIDDEN, LATENT))
    yield from _plain(f"{at}routed_expert_norm.weight", (LATENT,))
    for e in range(EXPERTS):
        for name, (rows, columns) in {"w1": (WIDTH, LATENT), "w3": (WIDTH, LATENT), "w2": (LATENT, WIDTH)}.items():
            yield from _plain(f"{at}experts.{e}.{name}.weight_packed", (rows, columns // 2), "U8")
            yield from _plain(f"{at}experts.{e}.{name}.weight_scale", (rows, columns // 32), "U8")
    yield from _network(f"{at}shared_experts.", 2 * WIDTH)


class Ghost:
    """The checkpoint as a sparse file."""

    def __init__(self, folder: Path) -> None:
        self.path, self.places, offset = folder / SHARD, {}, 0
        header = {}
        for name, kind, shape in shapes():
            size = math.prod(shape) * BYTES[kind]
            header[name] = dict(dtype=kind, shape=shape, data_offsets=[offset, offset + size])
            self.places[name], offset = (offset, kind, shape), offset + size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self._start, self.bytes = 8 + len(text), offset
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
        with open(self.path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(self._start + offset)

    def write(self, wanted: str) -> int:
        """Random values for every tensor whose name contains `wanted` and that is no routed expert unless asked for; bytes written."""
        total = 0
        with open(self.path, "r+b") as file:
            for name, (offset, kind, shape) in self.places.items():
                if wanted in name and (".experts." not in name or ".experts." in wanted):
                    file.seek(self._start + offset)
                    total += sum(file.write(piece) for piece in values(name, kind, shape))
        return total


def values(name: str, kind: str, shape: tuple[int, ...]) -> Iterator[bytes]:
    """Of about the spread that a trained weight has, piece by piece."""
    generator = torch.Generator().manual_seed(sum(name.encode()) * 65537 + len(name))
    left, last = math.prod(shape), shape[-1]
    while left:
        count = min(left, PIECE)
        left -= count
        if kind == "U8":
            low, high = (0, 256) if name.endswith("_packed") else (119, 121)
            yield torch.randint(low, high, (count,), dtype=torch.uint8, generator=generator).numpy().tobytes()
            continue
        drawn = torch.randn(count, generator=generator)
        drawn = 1 + drawn / 10 if "norm" in name else drawn / 2 if "conv1d" in name or kind == "F32" else drawn * last**-0.5
        yield drawn.numpy().tobytes() if kind == "F32" else drawn.bfloat16().view(torch.int16).numpy().tobytes()


class OnDisk(Mapping[str, torch.Tensor]):
    """Stored tensors, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._file = safe_open(path, framework="pt")
        self._names = set(self._file.keys())

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Inside(PlainReference):
    """Whose stream, before layer 1, has one block behind it."""

    def embed(self, ids: Any) -> torch.Tensor:
        return super().embed(ids).repeat(1, 2, 1)


def run(folder: Path, tokens: int) -> tuple[ValidateReport, int, int]:
    """(report, experts that were written, bytes that were written)."""
    ghost = Ghost(folder)
    written = ghost.write(f"layers.{LAYER}.")
    machine = backends().get("cpu").probe()
    inspected = inspect(folder)
    plan = plan_memory(inspected, machine, Workload(dtype="float32", context=64, batch=1, weights="streamed"))
    mapped = map_ops(inspected, plan, machine)
    probe = Probe.open(Release.open(folder), mapped, "float32")
    stream_TSD = draw(LAYER, torch.empty(tokens, 2, HIDDEN))
    experts = probe.layer(LAYER, stream_TSD, None, [tokens]).experts_TK
    assert experts is not None
    routed = experts.unique().tolist()
    del probe
    written += sum(ghost.write(f"layers.{LAYER}.block_sparse_moe.experts.{e}.") for e in routed)
    against = ("tests/families/kimi_k3_reference.py", lambda *_: Inside(OnDisk(folder / SHARD), TEXT))
    report = validate(
        inspected, plan, mapped, layers=str(LAYER), only=["layers"], dtype="float32", inputs="random", tokens=tokens, against=against,
    )  # fmt: skip
    return report, len(routed), written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=None)
    parser.add_argument("--tokens", type=int, default=6)
    given = parser.parse_args()
    if given.folder is None:
        print("skipped: needs a FOLDER with a few GB of room")
        return
    start = time.perf_counter()
    report, experts, written = run(given.folder, given.tokens)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = (given.folder / SHARD).stat().st_size
    print(f"{report.verdict} against {report.reference}: {report.first_divergence.line if report.first_divergence else 'nothing is wrong'}")
    for row in report.layer_errors:
        print(f"  {row.part:9} {row.phase:8} relative error {row.errors.ours:.1e}, worst row {row.errors.row_ratio * row.errors.budget:.1e}")
    print(f"layer {LAYER}: {HEADS} heads of delta attention, {experts} of {EXPERTS} experts routed to by {given.tokens} tokens")
    print(f"{size / 1e9:.1f} GB as released, {written / 1e9:.2f} GB written; peak memory {peak / 1e9:.2f} GB; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

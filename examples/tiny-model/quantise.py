"""Pack a bfloat16 release of the GLM-5.3-Flash kind: routed experts in mxfp4, attention in fp8 blocks, as compressed-tensors stores them.

    python examples/tiny-model/quantise.py SOURCE TARGET
    python examples/tiny-model/quantise.py SOURCE TARGET --suite FILE    and the accuracy before and after, in both executors

The suite is copied beside the packed release, with what the original scored on it, for `day0 adapt` and `day0 run --suite`.

Round to nearest, with the scales of compressed-tensors and no calibration: for mxfp4 a power of two for each 32 inputs, from the largest
of them rounded to a code of E2M1; for fp8 the largest of a block of 128 × 128 over 448.
"""

import argparse
import json
import re
import shutil
from pathlib import Path

from accuracy import lost, measure, show
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import load_file, save_file
from suite import publish
from torch import Tensor
from torch.nn.functional import pad

EXPERTS = [r"re:.*\.mlp\.experts\.\d+\.(gate|up|down)_proj$"]
ATTENTION = [r"re:.*\.layers\.\d+\.self_attn\.(q|k|v|o|q_a|q_b|kv_b)_proj$", r"re:.*\.self_attn\.kv_a_proj_with_mqa$"]
FORMATS = (("MXFP4A16", "mxfp4-pack-quantized", EXPERTS), ("FP8_BLOCK", "float-quantized", ATTENTION))  # preset, on disk, modules
PLAIN = ["lm_head", r"re:.*visual.*", r"re:.*\.mlp\.gate$", r"re:.*shared_experts.*", r"re:.*indexer.*"]
SHARD = 2 << 20  # bytes of a shard at the most


def schemes() -> list[QuantizationScheme]:
    """What happens to which modules."""
    found = []
    for preset, form, modules in FORMATS:
        scheme = preset_name_to_scheme(preset, modules)
        found.append(scheme.model_copy(update={"format": form, "input_activations": None}))
    return found


def extremes(weight: Tensor, scheme: QuantizationScheme) -> tuple[Tensor, Tensor]:
    """Least and largest weight under each scale: [O, I / 32] of groups, [rows, columns] of blocks, ragged ones filled with zeros."""
    rows, columns = scheme.weights.block_structure or (1, scheme.weights.group_size)
    full = pad(weight, (0, -weight.shape[1] % columns, 0, -weight.shape[0] % rows))
    blocks = full.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    return blocks.amin((1, 3)), blocks.amax((1, 3))


def pack(weight: Tensor, scheme: QuantizationScheme) -> dict[str, Tensor]:
    """Codes and scales, by the last word of their names."""
    weight = weight.float()
    scale, _ = calculate_qparams(*extremes(weight, scheme), scheme.weights)
    compressor = BaseCompressor.get_value_from_registry(scheme.format)
    packed: dict[str, Tensor] = compressor.compress({"weight": weight, "weight_scale": scale}, scheme)
    return packed


def quantise(source: Path, target: Path) -> None:
    """Write the packed release, with all that lies beside the weights."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name != "README.md" and "safetensors" not in file.name:
            shutil.copyfile(file, target / file.name)
    tensors: dict[str, Tensor] = {}
    for shard in sorted(source.glob("*.safetensors")):
        for name, tensor in load_file(shard).items():
            module = name.removesuffix(".weight")
            chosen = [s for s in schemes() if any(re.match(wanted.removeprefix("re:"), module) for wanted in s.targets)]
            tensors |= {f"{module}.{word}": part for word, part in pack(tensor, chosen[0]).items()} if chosen else {name: tensor}
    write(tensors, target)
    config = json.loads((source / "config.json").read_text())
    groups = {f"group_{i}": scheme for i, scheme in enumerate(schemes())}
    stated = QuantizationConfig(config_groups=groups, format="mixed-precision", quantization_status="compressed", ignore=PLAIN)
    config["quantization_config"] = stated.model_dump(mode="json", exclude_none=True)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def write(tensors: dict[str, Tensor], folder: Path) -> None:
    """Shards and their index."""
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        if shards[-1] and sum(other.nbytes for other in shards[-1].values()) + tensor.nbytes > SHARD:
            shards.append({})
        shards[-1][name] = tensor.contiguous()
    places = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())}, "weight_map": dict(sorted(places.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--suite", type=Path, help="questions for both, as suite.py writes them")
    wanted = parser.parse_args()
    quantise(wanted.source, wanted.target)
    if wanted.suite:
        before = list(measure(wanted.source, wanted.suite, "original"))
        after = list(measure(wanted.target, wanted.suite, "packed"))
        show([*before, *after])
        print("accuracy lost, points: " + ", ".join(f"{kind} {100 * points:.1f}" for kind, points in lost(before, after).items()))
        publish(wanted.suite, wanted.target, [score.model_dump(mode="json", exclude_defaults=True) for score in before])


if __name__ == "__main__":
    main()

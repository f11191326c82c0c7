"""What the quantiser writes: compressed-tensors, told by its own configuration, unpacks the numbers that day0 reads."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("compressed_tensors")
pytest.importorskip("transformers")

from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme
from compressed_tensors.utils import match_name
from safetensors.torch import load_file, save_file

from day0.checkpoint.folder import Checkpoint
from day0.engine.loading import decoded
from tests.examples.conftest import MODEL

ATTENTION = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_proj", "k_proj", "v_proj")


def schemes(folder: Path) -> list[QuantizationScheme]:
    """As compressed-tensors reads config.json."""
    stated = json.loads((folder / "config.json").read_text())["quantization_config"]
    return list(QuantizationConfig.model_validate(stated).config_groups.values())  # type: ignore[arg-type]


def unpacked(folder: Path) -> dict[str, torch.Tensor]:
    """Every packed weight, by compressed-tensors."""
    stored = {name: tensor for shard in folder.glob("*.safetensors") for name, tensor in load_file(shard).items()}
    found = {}
    for name in stored:
        module, _, last = name.rpartition(".")
        scheme = next((one for one in schemes(folder) if any(match_name(module, target) for target in one.targets)), None)
        if scheme is not None and last != "weight_scale":
            parts = {last: stored[name], "weight_scale": stored[f"{module}.weight_scale"]}
            compressor = BaseCompressor.get_value_from_registry(scheme.format)
            found[f"{module}.weight"] = compressor.decompress(parts, scheme)["weight"].float()
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A release with fresh weights, whose blocks of fp8 are ragged on both sides."""
    torch.manual_seed(0)
    folder, names = tmp_path / "source", "model.language_model.layers.{}.{}.weight".format
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "glm5_next"}')
    shapes = {names(1, f"mlp.experts.{e}.{matrix}_proj"): (48, 96) for e in range(3) for matrix in ("gate", "up", "down")}
    shapes |= {names(0, f"self_attn.{name}"): (200, 300) for name in ATTENTION} | {names(1, "mlp.gate"): (3, 96), "lm_head.weight": (64, 96)}
    save_file({name: torch.randn(shape).bfloat16() * 0.02 for name, shape in shapes.items()}, folder / "model.safetensors")
    return folder


def close(folder: Path) -> dict[str, Any]:
    """Every packed weight as day0 reads it, once it is what compressed-tensors unpacks."""
    checkpoint, found = Checkpoint.open(folder), {}
    for name, expected in unpacked(folder).items():
        found[name] = decoded(folder, checkpoint.stored[name], torch.float32)
        # compressed-tensors unpacks mxfp4 in bfloat16, which holds a code of two bits times a power of two exactly
        torch.testing.assert_close(found[name], expected, rtol=1e-6, atol=0)
    return found


def test_compressed_tensors_unpacks_what_day0_reads(source: Path, tmp_path: Path) -> None:
    from quantise import quantise

    quantise(source, tmp_path / "packed")
    found, original = close(tmp_path / "packed"), load_file(source / "model.safetensors")
    assert found.keys() == {name for name in original if "experts" in name or "self_attn" in name}
    stored = Checkpoint.open(tmp_path / "packed").stored
    for name, weight in found.items():
        right, (form, step) = original[name].float(), ("mxfp4", 2**-2) if "experts" in name else ("fp8_block", 2**-4)
        assert stored[name].format == form
        # half a step of the code next to the value: 1 or 3 bits of mantissa; small values by the scale's own step
        largest = right.abs().max()
        assert ((weight - right).abs() <= (right.abs() * step).clamp(min=largest * step / 4)).all()
    assert stored["lm_head.weight"].format == stored["model.language_model.layers.1.mlp.gate.weight"].format == "plain"


def test_the_embedded_model_is_packed_so() -> None:
    found = close(MODEL)
    config = json.loads((MODEL / "config.json").read_text())["text_config"]
    sparse = config["mlp_layer_types"].count("sparse")
    assert sum(".experts." in name for name in found) == sparse * config["n_routed_experts"] * 3
    attention = {"linear_attention": 4, "indexed_attention": 5}
    assert sum(".self_attn." in name for name in found) == sum(attention[kind] for kind in config["layer_types"])
    assert sum(path.stat().st_size for path in MODEL.rglob("*")) < 8_000_000


def test_the_delta_rule_of_training_is_that_of_transformers() -> None:
    from chunked_delta import chunked_delta
    from transformers.models.glm5_next.modeling_glm5_next import chunk_kimi_delta_attention

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 53, 3, 16) for _ in range(3))
    how = dict(g=-5 * torch.rand(2, 53, 3, 16), beta=torch.rand(2, 53, 3), use_qk_l2norm_in_kernel=True, output_final_state=True)
    for found, expected in zip(chunked_delta(q, k, v, **how), chunk_kimi_delta_attention(q, k, v, **how), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_pool_scores_of_training_are_those_that_choose() -> None:
    """The indexer of transformers chooses the pools that our differentiable scores rank first."""
    import transformers
    from indexer import scores

    config = transformers.AutoConfig.from_pretrained(MODEL).text_config
    config.index_topk = 8
    torch.manual_seed(0)
    indexer = transformers.models.glm5_next.modeling_glm5_next.Glm5NextTextIndexer(config, 1)
    with torch.no_grad():
        for parameter in indexer.parameters():
            parameter.normal_()
        hidden, latent = torch.randn(1, 40, config.hidden_size), torch.randn(1, 40, config.q_lora_rank)
        chosen = indexer(hidden_states=hidden, q_resid=latent, attention_mask=torch.ones(1, 40, dtype=torch.bool), cache=None)
        best = scores(indexer, hidden, latent)[0, -1].topk(2).indices
    tokens = {token for token in chosen[0, -1].tolist() if token >= 0}
    assert tokens == {int(pool) * 4 + i for pool in best for i in range(4)}

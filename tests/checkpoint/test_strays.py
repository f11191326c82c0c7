"""Every tensor of a release is claimed by the model or named by a finding."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from day0.stages.inspect import inspect
from tests.zoo import checkpoint

STRAYS = ("aaa", "model.layers.0.self_attn.extra", "model.layers.0.mlp.experts.0.gate_proj.aaa", "model.layers.0.q.weight_scale_9")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool, torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_a_tensor_that_nothing_reads_is_named_whatever_its_type(tmp_path: Path, dtype: torch.dtype) -> None:
    """At the top, in a layer, next to an expert; of types that are weights, and of those that no format reads."""
    folder = Path(shutil.copytree(checkpoint("qwen3_moe"), tmp_path / "model"))
    save_file({name: torch.zeros(3).to(dtype) for name in STRAYS}, folder / "extra.safetensors")
    index = folder / "model.safetensors.index.json"
    told = json.loads(index.read_text())
    told["weight_map"] |= dict.fromkeys(STRAYS, "extra.safetensors")
    index.write_text(json.dumps(told))
    named = [finding.subject for finding in inspect(folder).findings if finding.code in ("D0209", "D0303") and finding.status != "pass"]
    assert sorted(named) == sorted(STRAYS)

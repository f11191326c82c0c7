"""One layer, or two together, that do not bear what all others do."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from transformers import LlamaConfig, LlamaForCausalLM

from day0.community.bench import Bench
from day0.community.switch import compare_switched, smallest
from day0.engine.release import Release
from tests.cli.conftest import Done, day0
from tests.validate.planted import reports
from tests.zoo.tokenizer import CONFIG_IDS

__all__ = ["day0"]
LAYERS = 8
IDS = [(37 * i) % 120 + 3 for i in range(48)]


def toy(folder: Path, outliers: Iterable[int], size: float = 3000.0) -> Path:
    """A Llama of eight layers; in some one channel of keys is enormous, and queries do not look at it."""
    sizes = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=2, num_key_value_heads=2, vocab_size=128)
    torch.manual_seed(0)
    config = LlamaConfig(**sizes, max_position_embeddings=256, rope_theta=1e4, tie_word_embeddings=False)
    model = LlamaForCausalLM(config).float()
    with torch.no_grad():
        for layer in model.model.layers:
            for matrix in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                matrix.weight.normal_(std=0.25)
            layer.self_attn.v_proj.weight.normal_(std=0.1)
            layer.self_attn.o_proj.weight.normal_(std=0.1)
        model.lm_head.weight.normal_(std=0.5)
        for index in outliers:
            attention = model.model.layers[index].self_attn
            for head in range(2):  # a rotation mixes channel 0 with channel 16
                attention.k_proj.weight[32 * head] *= size
                attention.q_proj.weight[[32 * head, 32 * head + 16]] = 0
    model.save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text()) | CONFIG_IDS
    (folder / "config.json").write_text(json.dumps(said))
    return folder


def test_the_last_layer_alone_does_not_bear_state_in_8_bits(day0: Callable[..., Done], tmp_path: Path) -> None:
    """omlx #701: nine of ten layers were fine, the last one turned the text to garbage."""
    folder = toy(tmp_path / "toy", [7])
    for command in (("inspect", folder), ("plan-memory", "--context", "64", "--dtype", "float32"), ("map-ops",)):
        assert day0(*command).code == 0
    done = day0("validate", "--only", "model", "--switch", "kv-int8", "--tokens", "48", "--json")
    (row,) = done.json["switches"]
    assert done.code == 1 and row["layers"] == [7] and row["rest"] < row["limit"] < row["alone"]
    assert done.json["first_divergence"]["layer"] == 7 and "kv-int8 in layer 7" in done.json["first_divergence"]["statistic"]
    assert day0("validate", "--only", "model", "--switch", "kv-bf16", "--tokens", "48").code == 0


def test_two_layers_that_spoil_it_only_together(tmp_path: Path) -> None:
    folder = toy(tmp_path / "toy", [6, 7])
    bench = Bench(Release.open(folder), {torch.float32: reports(folder, "float32")[2]})
    assert len(compare_switched(bench, "kv-int8", IDS, limit=0.1).layers) == 1
    found = compare_switched(bench, "kv-int8", IDS, limit=0.5)
    assert found.layers == (6, 7) and found.rest < 0.05 < 0.5 < found.alone


@pytest.mark.parametrize("wanted", [{7}, {0}, {3, 5}, {0, 7}, {1, 2, 6}, set(range(8))])
def test_the_smallest_set_is_found(wanted: set[int]) -> None:
    asked: list[frozenset[int]] = []

    def fails(some: frozenset[int]) -> bool:
        asked.append(some)
        return wanted <= some

    assert smallest(range(8), fails) == wanted and len(asked) < 60

"""What differs from layer to layer, as it was met in public: sparse layers by a list, experts stored in two ways, layers left in full."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases.inspected import Edit, Inspected, Tensors, folder, write
from tests.zoo import checkpoint

__all__ = ["folder"]


def layers_of(name: str) -> int:
    return int(json.loads((checkpoint(name) / "config.json").read_text())["num_hidden_layers"])


def by_flags(flags: list[object]) -> Edit:
    """A list of flags in the place of the number of dense layers."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["moe_layer_freq"] = flags
        for key in ("first_k_dense_replace", "mlp_layer_types"):
            config.pop(key, None)

    return edit


@pytest.mark.parametrize("flags", [[0, 1, 1], [0, 1, 1, 1], [False, True, True]])
def test_sparse_layers_by_a_list_of_flags(folder: Path, flags: list[object]) -> None:
    """Without or with an entry for the prediction layer: the layers are those that the number of dense ones gives."""
    write(folder, "deepseek_v3")
    plain, listed = Inspected(folder), folder.with_name("listed")
    assert len(plain.report.layers) == 3
    write(listed, "deepseek_v3", by_flags(flags))
    inspected = Inspected(listed)
    assert (inspected.code, inspected.told, inspected.report.layers) == (0, [], plain.report.layers)
    assert inspected.report.parameters == plain.report.parameters and "moe_layer_freq" in inspected.report.config.read


def test_sparse_layers_of_kimi_linear_by_a_list_of_flags(folder: Path) -> None:
    write(folder, "kimi_linear")
    plain, listed = Inspected(folder), folder.with_name("listed")
    flags = [int(layer.ffn == "moe_ffn") for layer in plain.report.layers]
    write(listed, "kimi_linear", by_flags([*flags]))
    inspected = Inspected(listed)
    assert {0, 1} == set(flags) and (inspected.code, inspected.told, inspected.report.layers) == (plain.code, plain.told, plain.report.layers)


def test_flags_call_a_dense_layer_sparse(folder: Path) -> None:
    """The headers say what it is, and contradict the list by name."""
    write(folder, "deepseek_v3", by_flags([1, 1, 1]))
    inspected = Inspected(folder)
    assert inspected.code == 1 and ("D0302", "fail", "layers.0.ffn.router") in inspected.told
    assert ("D0303", "fail", "model.layers.0.mlp.gate_proj.weight") in inspected.told


@pytest.mark.parametrize("flags", [[], [0], [0, 1], [0, 2, 1], [0, "sparse", 1], [0, [], 1]])
def test_flags_that_cannot_be(folder: Path, flags: list[object]) -> None:
    """Too few, or neither 0 nor 1."""
    write(folder, "deepseek_v3", by_flags(flags))
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0301", "fail", "model_type deepseek_v3")]) and "moe_layer_freq" in inspected.found("D0301")


def one_by_one(tensors: Tensors, place: str) -> None:
    """The experts below `place`, stored together, each in tensors of its own."""
    (kind, (experts, both, hidden)), (_, (_, _, width)) = (tensors.pop(f"{place}.{name}_proj") for name in ("gate_up", "down"))
    assert both == 2 * width
    for e in range(experts):
        tensors |= {f"{place}.{e}.{name}_proj.weight": (kind, [width, hidden]) for name in ("gate", "up")}
        tensors[f"{place}.{e}.down_proj.weight"] = (kind, [hidden, width])


def predicting(kind: str, apart: str) -> Edit:
    """Qwen3.5 with a prediction layer; `apart`, the beginning of the names of those experts that are stored one by one."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        first = "model.layers.0."
        tensors |= {name.replace(first, "mtp.layers.0."): tensor for name, tensor in tensors.items() if name.startswith(first)}
        config |= {"model_type": kind, "mtp_num_hidden_layers": 1}
        for name in [name for name in tensors if name.startswith(apart) and name.endswith(".gate_up_proj")]:
            one_by_one(tensors, name.removesuffix(".gate_up_proj"))

    return edit


@pytest.mark.parametrize("kind", ["qwen3_5_moe_text", "nobody_knows"])
@pytest.mark.parametrize(("apart", "stack", "prediction"), [("mtp.", "together", "one by one"), ("model.", "one by one", "together")])
def test_experts_of_the_prediction_layer_are_stored_otherwise(folder: Path, kind: str, apart: str, stack: str, prediction: str) -> None:
    """Either way round, and whether or not a family reads it: the report says which is which, and the counts are the same."""
    write(folder, "qwen3_5_moe", predicting(kind, apart))
    inspected, layers = Inspected(folder), layers_of("qwen3_5_moe")
    rows = {row.where: (row.layout, row.layers) for row in inspected.report.structure.expert_layouts}
    assert rows == {"stack": (stack, layers), "prediction": (prediction, 1)} and len(inspected.report.structure.expert_layouts) == 2
    assert [bool(re.match(r"mtp\.", row.tensor)) for row in inspected.report.structure.expert_layouts] == [False, True]
    alike = folder.with_name("alike")
    write(alike, "qwen3_5_moe", predicting(kind, "nothing"))
    other = Inspected(alike)
    assert (inspected.code, inspected.told) == (other.code, other.told) and inspected.report.parameters == other.report.parameters
    assert inspected.report.parameters.prediction > 0 and (kind == "nobody_knows" or inspected.code == 0)


def test_experts_that_nobody_claims_are_listed(folder: Path) -> None:
    """Experts of the prediction layer below a name that no family knows are named one pattern at a time, never dropped."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        tensors |= {f"draft.experts.{e}.up_proj.weight": ("BF16", [8, 8]) for e in range(4)}

    write(folder, "qwen3_5_moe", edit)
    inspected = Inspected(folder)
    assert inspected.code == 1 and ("D0303", "fail", "draft.experts.*.up_proj.weight") in inspected.told


def to_gptq(tensors: Tensors, config: dict[str, Any], order: bool) -> None:
    """The packed weights of compressed-tensors as GPTQ stores them, 4 bits, with the order of inputs or without; those of the last layer plain."""
    group = config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"]
    last = f"model.layers.{config['num_hidden_layers']}."
    for name in [name for name in tensors if name.endswith(".weight_packed")]:
        module = name.removesuffix(".weight_packed")
        _, (outputs, words) = tensors.pop(name)
        for part in ("scale", "shape"):
            del tensors[f"{module}.weight_{part}"]
        if module.startswith(last) or outputs % 8:
            tensors[f"{module}.weight"] = ("BF16", [outputs, words * 8])
            continue
        groups = -(-words * 8 // group)
        tensors |= {
            f"{module}.qweight": ("I32", [words, outputs]), f"{module}.qzeros": ("I32", [groups, outputs // 8]),
            f"{module}.scales": ("F16", [groups, outputs]),
        }  # fmt: skip
        if order:
            tensors[f"{module}.g_idx"] = ("I32", [words * 8])
    config["quantization_config"] = {
        "quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": order, "sym": True, "modules_to_not_convert": [],
    }  # fmt: skip


@pytest.mark.parametrize("order", [False, True])
def test_gptq_whose_prediction_layer_was_left_in_full(folder: Path, order: bool) -> None:
    """The tensors say which layers are packed; each plain weight is told, for the list is empty; scales of the cache are called that."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        to_gptq(tensors, config, order)
        tensors |= {f"model.layers.0.self_attn.{kind}_scale": ("F32", [1]) for kind in "kv"}

    write(folder, "deepseek_v3-int4", edit)
    inspected = Inspected(folder)
    last = f"model.layers.{layers_of('deepseek_v3-int4')}."
    left = [subject for code, status, subject in inspected.told if (code, status) == ("D0212", "warn")]
    assert inspected.code == 0 and left and all(subject.startswith(last) for subject in left if not subject.endswith("more"))
    assert ("D0303", "warn", "model.layers.0.self_attn.k_scale") in inspected.told and "cache" in inspected.found("D0303")
    held = {(cell.role == "prediction", cell.format) for cell in inspected.report.bytes.cells}
    assert (False, "gptq") in held and (True, "plain") in held and (True, "gptq") not in held

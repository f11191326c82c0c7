"""Which tensors make up a weight: by types, names and shapes; damaged companions are a finding, and the weight is not read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.folder import Checkpoint, recognise_all
from day0.checks.d0204_scale_grid import CHECK
from day0.spec.format import Stored, TensorHeader
from day0.spec.registry import formats
from tests.checkpoint.shards import Tensor, write_release

GROUPS = {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "symmetric": True}}}}
ASYMMETRIC = {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "symmetric": False, "actorder": "group"}}}}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "checkpoint_format": "gptq"}
Layout = tuple[str, tuple[int, ...], dict[str, Tensor], Mapping[str, Any]]

# layout → format, shape once decoded, tensors by the names that stand behind "M." (the first is the data), configuration
LAYOUTS: dict[str, Layout] = {
    "mxfp4 gpt-oss": ("mxfp4", (3, 10, 96), {"x_blocks": ("U8", [3, 10, 3, 16]), "x_scales": ("U8", [3, 10, 3])}, {}),
    "mxfp4 compressed-tensors": ("mxfp4", (10, 96), {"x.weight_packed": ("U8", [10, 48]), "x.weight_scale": ("U8", [10, 3])}, {}),
    "mxfp4 deepseek": ("mxfp4", (10, 96), {"x.weight": ("I8", [10, 48]), "x.scale": ("F8_E8M0", [10, 3])}, {}),
    "mxfp4 bytes": ("mxfp4", (10, 96), {"x.weight": ("U8", [10, 48]), "x.weight_scale": ("U8", [10, 3])}, {}),
    "mxfp4 ragged": ("mxfp4", (10, 80), {"x.weight_packed": ("U8", [10, 40]), "x.weight_scale": ("U8", [10, 3])}, {}),
    "mxfp8": ("mxfp8", (10, 96), {"x.weight": ("F8_E4M3", [10, 96]), "x.weight_scale": ("U8", [10, 3])}, {}),
    "mxfp8 inverse": ("mxfp8", (10, 96), {"x.weight": ("F8_E4M3", [10, 96]), "x.weight_scale_inv": ("U8", [10, 3])}, {}),
    "nvfp4 modelopt": ("nvfp4", (10, 96), {
        "x.weight": ("U8", [10, 48]), "x.weight_scale": ("F8_E4M3", [10, 6]), "x.weight_scale_2": ("F32", []),
    }, {}),
    "nvfp4 compressed-tensors": ("nvfp4", (10, 96), {
        "x.weight_packed": ("U8", [10, 48]), "x.weight_scale": ("F8_E4M3", [10, 6]), "x.weight_global_scale": ("F32", [1]),
    }, {}),
    "nvfp4 stack": ("nvfp4", (3, 10, 96), {
        "x.weight": ("U8", [3, 10, 48]), "x.weight_scale": ("F8_E4M3", [3, 10, 6]), "x.weight_scale_2": ("F32", [3]),
    }, {}),
    "int4": ("int4", (10, 96), {
        "x.weight_packed": ("I32", [10, 12]), "x.weight_scale": ("BF16", [10, 3]), "x.weight_shape": ("I64", [2]),
    }, GROUPS),
    "int4 asymmetric": ("int4", (10, 96), {
        "x.weight_packed": ("I32", [10, 12]), "x.weight_scale": ("BF16", [10, 3]), "x.weight_shape": ("I64", [2]),
        "x.weight_zero_point": ("I32", [2, 3]), "x.weight_g_idx": ("I32", [96]),
    }, ASYMMETRIC),
    "awq": ("awq", (16, 96), {
        "x.qweight": ("I32", [96, 2]), "x.scales": ("F16", [3, 16]), "x.qzeros": ("I32", [3, 2]),
    }, {"quant_method": "awq"}),
    "gptq": ("gptq", (16, 96), {
        "x.qweight": ("I32", [12, 16]), "x.scales": ("F16", [3, 16]), "x.qzeros": ("I32", [3, 2]), "x.g_idx": ("I32", [96]),
    }, GPTQ),
    "fp8 tensor": ("fp8", (10, 96), {"x.weight": ("F8_E4M3", [10, 96]), "x.weight_scale": ("F32", [])}, {}),
    "fp8 channel": ("fp8", (10, 96), {"x.weight": ("F8_E4M3", [10, 96]), "x.weight_scale": ("BF16", [10, 1])}, {}),
    "fp8 mistral": ("fp8", (10, 96), {"x.weight": ("F8_E4M3", [10, 96]), "x.qscale_weight": ("BF16", [])}, {}),
    "fp8 block": ("fp8_block", (200, 300), {"x.weight": ("F8_E4M3", [200, 300]), "x.weight_scale": ("F32", [2, 3])}, {}),
    "fp8 32x32": ("fp8_block", (70, 96), {
        "x.weight": ("F8_E4M3", [70, 96]), "x.scale": ("F8_E8M0", [3, 3]),
    }, {"weight_block_size": [32, 32]}),
}  # fmt: skip


def headers(tensors: Mapping[str, Tensor], module: str = "m.") -> dict[str, TensorHeader]:
    return {module + name: TensorHeader(module + name, dtype, tuple(shape), "x", 0, 0) for name, (dtype, shape) in tensors.items()}


def weights(found: dict[str, Stored]) -> dict[str, Stored]:
    """Without companions that no weight took."""
    return {name: stored for name, stored in found.items() if formats().get(stored.format).packed}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    form, shape, tensors, config = LAYOUTS[layout]
    found = recognise_all(headers(tensors), config)
    (stored,) = found.values()
    assert (stored.format, stored.shape) == (form, shape)
    assert {part.name for part in stored.parts.values()} == headers(tensors).keys()
    assert stored.name in ("m.x.weight", "m.x_blocks")


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if "config_groups" not in LAYOUTS[layout][3]])
def test_all_layouts_live_together(layout: str) -> None:
    """What stands beside a weight does not change how it is read."""
    form, shape, tensors, config = LAYOUTS[layout]
    others = {name: header for other in LAYOUTS if "block" not in other for name, header in headers(LAYOUTS[other][2], f"{other}.").items()}
    found = recognise_all({**others, **headers(tensors)}, config)
    (stored,) = (stored for name, stored in found.items() if name.startswith("m."))
    assert (stored.format, stored.shape) == (form, shape)


@pytest.mark.parametrize("idle", ["input_scale", "input_global_scale", "qscale_act", "k_scale", "v_scale", "output_scale"])
def test_scales_of_activations_belong_to_their_weight(idle: str) -> None:
    for layout in ("nvfp4 modelopt", "fp8 tensor", "int4"):
        _, _, tensors, config = LAYOUTS[layout]
        found = recognise_all(headers({**tensors, f"x.{idle}": ("F32", [])}), config)
        (stored,) = found.values()
        assert idle in stored.parts and idle not in stored.kept
    found = recognise_all(headers({"k_proj.weight": ("BF16", [4, 4]), "v_proj.weight": ("BF16", [4, 4]), "k_scale": ("F32", [])}), {})
    assert found["m.k_proj.weight"].parts.keys() == {"data", "k_scale"} and found["m.v_proj.weight"].parts.keys() == {"data"}
    assert recognise_all(headers({"lonely.k_scale": ("F32", [])}), {}).keys() == {"m.lonely.k_scale"}


def damages(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Every companion absent, of another type, of another shape; and the data of another type."""
    found = {}
    data, *companions = tensors
    for name in companions:
        dtype, shape = tensors[name]
        found[f"{name} absent"] = {key: value for key, value in tensors.items() if key != name}
        found[f"{name} type"] = {**tensors, name: ("F64" if dtype in ("I32", "I64") else "I64", shape)}
        found[f"{name} shape"] = {**tensors, name: (dtype, [*shape[:-1], shape[-1] + 1] if shape else [7])}
        found[f"{name} rank"] = {**tensors, name: (dtype, [2, 2, *shape])}
    return found | {f"{data} type": {**tensors, data: ("F8_E5M2", tensors[data][1])}}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_companions_are_never_decoded(layout: str) -> None:
    _, _, tensors, config = LAYOUTS[layout]
    for damage, damaged in damages(tensors).items():
        found = weights(recognise_all(headers(damaged), config))
        assert found == {}, f"{damage}: read as {found}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_companions_are_told(tmp_path: Path, layout: str) -> None:
    """Beside a sound weight of the same kind."""
    _, _, tensors, config = LAYOUTS[layout]
    sound = {f"sound.{name}": value for name, value in tensors.items()}
    for number, (damage, damaged) in enumerate(damages(tensors).items()):
        if damage.split()[0] != next(iter(tensors)):
            folder = tmp_path / str(number)
            shards: list[Mapping[str, Tensor]] = [{**sound, **{f"m.{name}": value for name, value in damaged.items()}}]
            write_release(folder, shards, {"model_type": "none", "quantization_config": dict(config)})
            (finding,) = CHECK.run(Checkpoint.open(folder))
            assert finding.status == "fail" and finding.subject == f"m.{next(iter(tensors))}", damage
            assert "absent" in damage or damage.split()[0] in finding.expected, (damage, finding)


def test_a_width_that_the_configuration_states_is_not_read_as_four_bits() -> None:
    for layout, key in (("int4", "num_bits"), ("awq", "bits"), ("gptq", "bits")):
        _, _, tensors, config = LAYOUTS[layout]
        stated = {**config, key: 8} if key == "bits" else {"config_groups": {"a": {"weights": {key: 8}}}}
        assert weights(recognise_all(headers(tensors), stated)) == {}


def test_gptq_versions() -> None:
    _, _, tensors, config = LAYOUTS["gptq"]
    (first,) = recognise_all(headers(tensors), config).values()
    (second,) = recognise_all(headers(tensors), {**config, "checkpoint_format": "gptq_v2"}).values()
    assert "zeros_less_one" in first.parts and "zeros" in second.parts


def test_two_data_tensors_with_one_companion_are_not_both_read() -> None:
    tensors: dict[str, Tensor] = {"x.weight": ("U8", [4, 48]), "x.weight_packed": ("U8", [4, 48]), "x.weight_scale": ("U8", [4, 3])}
    found = weights(recognise_all(headers(tensors), {}))
    assert len(found) == 1

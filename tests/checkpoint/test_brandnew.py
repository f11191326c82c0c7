"""A family that nobody knows, in four variants: what is told of its structure is what the release that it was made from has."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.spec.reports.inspect import InspectReport
from day0.stages.inspect import inspect
from tests.checkpoint import brandnew
from tests.checkpoint.shards import write_release
from tests.zoo import checkpoint

VARIANTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "renamed": (brandnew.renamed, "deepseek_v3"),
    "strange": (brandnew.strange, "qwen3_moe"),
    "nested": (brandnew.nested, "deepseek_v3"),
    "quantised": (brandnew.quantised, "qwen3_moe-int4"),
}


def outline(report: InspectReport) -> list[tuple[object, ...]]:
    return [(layer.mixer, layer.ffn, layer.experts, layer.top_k, layer.parameters, layer.active) for layer in report.layers]


@pytest.mark.parametrize("variant", VARIANTS)
def test_structure(variant: str, tmp_path: Path) -> None:
    make, base = VARIANTS[variant]
    make(tmp_path)
    found, known = inspect(tmp_path), inspect(checkpoint(base))
    assert found.model.family is None and found.basis == "tensors"
    assert [finding.code for finding in found.findings if finding.status == "fail"] == ["D0301"]
    echoes = {0: 420, 2: 420} if variant == "strange" else {}  # 7 × 60 weights that nothing explains, in every second layer
    expected = [
        (mixer, ffn, experts, top_k, total + echoes.get(i, 0), active + echoes.get(i, 0))
        for i, (mixer, ffn, experts, top_k, total, active) in enumerate(outline(known))
    ]
    assert outline(found) == expected
    assert found.parameters.total == known.parameters.total + sum(echoes.values())
    assert found.parameters.active == known.parameters.active + sum(echoes.values())
    assert found.parameters.prediction == known.parameters.prediction
    assert (found.model.hidden, found.model.vocab) == (known.model.hidden, known.model.vocab)
    assert found.structure.token_bytes == known.structure.token_bytes
    assert [(kind.count, kind.experts and kind.experts.routed) for kind in found.structure.kinds] == [
        (kind.count, kind.experts and kind.experts.routed) for kind in known.structure.kinds
    ]
    open = ["self_attn.echo_chamber.weight [7, 60] in 2 layers: what it does is not known"] if variant == "strange" else []
    assert found.structure.open == open


def test_closest_family(tmp_path: Path) -> None:
    brandnew.strange(tmp_path)
    report = inspect(tmp_path)
    assert report.model.closest and report.model.closest.startswith("qwen3_moe (18 of 19 kinds of tensor names")
    assert report.config.unread["echo_rank"] == "changes shapes" and report.config.unread["echo_decay"] == "changes arithmetic"
    assert report.config.unread["initializer_range"] == "training only" and report.config.unread["use_cache"] == "harmless"
    assert report.config.read["hidden_size"] == "usual words: hidden"


def test_language_model_under_a_key_of_its_own(tmp_path: Path) -> None:
    brandnew.nested(tmp_path)
    report = inspect(tmp_path)
    assert report.parameters.towers == {"vision": 3 * 96 * 32}
    assert report.config.read["brain.d_model"] == "usual words: hidden" and report.evidence["model.hidden"] == "config.json: brain.d_model"


def test_packed_experts_count_as_what_they_decode_to(tmp_path: Path) -> None:
    brandnew.quantised(tmp_path)
    report = inspect(tmp_path)
    assert report.bytes.by_role["expert"] == report.bytes.by_format["int4"]
    assert {cell.dtype for cell in report.bytes.cells if cell.format == "int4"} == {"I32", "F16", "I64"}


def test_configuration_and_tensors_that_contradict_each_other(tmp_path: Path) -> None:
    tensors, config = brandnew.released("qwen3_moe")
    write_release(tmp_path, [tensors], config | {"num_experts": 9, "num_hidden_layers": 4, "hidden_size": 64})
    told = {finding.subject: finding.expected for finding in inspect(tmp_path).findings if finding.code == "D0310"}
    assert {*told} == {"num_experts", "num_hidden_layers", "hidden_size"}
    assert told["num_experts"] == "9 by the configuration"


def test_what_no_format_reads_is_a_bracket(tmp_path: Path) -> None:
    tensors, config = brandnew.released("qwen3_moe")
    packed = "model.layers.1.self_attn.q_proj.weight"
    rows, columns = tensors[packed][1]
    write_release(tmp_path, [tensors | {packed: ("U8", [rows, columns // 2])}], config)
    least, total, most = (getattr(inspect(tmp_path).parameters, name) for name in ("least", "total", "most"))
    assert least < total < most and least + rows * columns // 2 == total
    assert least + rows * columns <= most

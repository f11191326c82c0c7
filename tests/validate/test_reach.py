"""The sequence is longer than what attention is bounded by, wherever that is affordable; what it does not show is said."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("transformers")

from day0.engine.release import Release
from day0.stages.validate import LONGEST, sequence_length
from tests.validate.planted import part, validate
from tests.zoo import checkpoint, names

ROOM = 64 << 30  # bytes


def bounded(config: dict[str, Any]) -> list[int]:
    """By the names that configurations of transformers give lengths that bound attention."""
    config = config.get("text_config", config)
    keys = ("index_topk", "sliding_window", "attention_chunk_size")
    return [config[key] for key in keys if config.get(key) and config.get("use_sliding_window", True)]


@pytest.mark.parametrize("name", names())
def test_the_sequence_is_longer_than_every_window_and_every_choice(name: str) -> None:
    release = Release.open(checkpoint(name))
    lengths = bounded(dict(release.checkpoint.config.data))
    assert all(sequence_length(release, range(len(release.model.layers)), ROOM) > length for length in lengths)


@pytest.mark.parametrize(("top_k", "memory", "reaches"), [(2048, ROOM, True), (2048, ROOM >> 8, False), (12, ROOM >> 8, True)])
def test_a_choice_of_released_size_is_reached_where_memory_allows(top_k: int, memory: int, reaches: bool) -> None:
    """2048, as DeepSeek-V3.2 has it, is beyond what is run by default."""
    release = Release.open(checkpoint("deepseek_v32"))
    part(1, "mixer", lambda m: replace(m, top_k=top_k))(release)
    release.model = replace(release.model, context=1 << 14)
    length = sequence_length(release, [1], memory)
    assert (length > top_k) == reaches and (reaches or length <= LONGEST)


def told(monkeypatch: pytest.MonkeyPatch, name: str, *rungs: Any, context: int | None = None, **wanted: Any) -> list[str]:
    def shorter(release: Release) -> None:
        release.model = replace(release.model, context=context or release.model.context)

    report = validate(monkeypatch, checkpoint(name), shorter, layers="1", only=rungs or ["layers"], dtype="float32", **wanted)
    assert report.verdict == "pass"
    return [f"{one.subject}: {one.found}" for one in report.findings if one.code == "D0805" and "beyond" in one.found]


@pytest.mark.parametrize(("name", "kind", "length"), [("deepseek_v32", "dsa", 12), ("mimo_v2_flash", "gqa", 11)])
def test_a_prompt_that_is_too_short_is_said_to_be(monkeypatch: pytest.MonkeyPatch, name: str, kind: str, length: int) -> None:
    """Once, on the first rung that runs layers."""
    (text,) = told(monkeypatch, name, "operators", "layers", tokens=length)
    assert text.startswith("layer 1 mixer") and f"what {kind} does beyond {length} tokens" in text and "--tokens 4" in text
    assert told(monkeypatch, name, tokens=length + 1) == told(monkeypatch, name) == []


def test_so_is_a_context_that_ends_before(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = told(monkeypatch, "deepseek_v32", context=12)
    assert "the context of the model ends at 12" in text

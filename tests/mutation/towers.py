"""Faults of towers for images: every text is right, and an image is misread."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from day0.engine.release import Release
from day0.spec.encoder import Encoder
from tests.mutation.fault import Planted

WANTED: dict[str, Any] = dict(only=["model"], dtype="float32", tokens=24)


def encoder(change: Callable[[Encoder], Encoder]) -> Callable[[Release], None]:
    """Another tower."""

    def plant(release: Release) -> None:
        towers = [replace(tower, encoder=change(tower.encoder)) if tower.encoder else tower for tower in release.model.towers]
        release.model = replace(release.model, towers=tuple(towers))

    return plant


def layer(index: int, place: str, change: Callable[[Any], Any]) -> Callable[[Release], None]:
    """Another part of one of its layers."""

    def changed(tower: Encoder) -> Encoder:
        layers = list(tower.layers)
        layers[index] = replace(layers[index], **{place: change(getattr(layers[index], place))})
        return replace(tower, layers=tuple(layers))

    return encoder(changed)


def other_corners(tower: Encoder) -> Encoder:
    assert tower.patches.grid is not None
    return replace(tower, patches=replace(tower.patches, grid=replace(tower.patches.grid, corners=not tower.patches.grid.corners)))


TOWERS = {
    "rotation of patches half as fast again": Planted(
        "glm5_next", "model", None, "tower", layer(1, "mixer", lambda m: replace(m, rope=replace(m.rope, theta=m.rope.theta * 1.5))),
        line="tower layer 1 mixer", sees=True, wanted=WANTED),
    "another activation in a layer of the tower": Planted(
        "qwen3_vl_moe", "model", None, "tower", layer(2, "ffn", lambda f: replace(f, activation=replace(f.activation, kind="relu2"))),
        line="tower layer 2 ffn", sees=True, wanted=WANTED),
    "grid of positions resampled from other corners": Planted(
        "kimi_k25", "model", None, "tower", encoder(other_corners), line="tower patches", sees=True, wanted=WANTED),
    "squares of patches joined in another order": Planted(
        "qwen3_vl_moe", "model", None, "tower", encoder(lambda e: replace(e, connector=replace(e.connector, ordered=not e.connector.ordered))),  # type: ignore[type-var]
        line="tower connector", sees=True, wanted=WANTED),
}  # fmt: skip

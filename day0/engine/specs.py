"""Every weight that a model must have, by its canonical name."""

from collections.abc import Iterator

from day0.spec.encoder import Encoder
from day0.spec.model import Layer, Model, TensorSpec
from day0.spec.registry import parts


def specs(model: Model) -> Iterator[tuple[str, TensorSpec]]:
    """(canonical name, weight) of everything the model must have."""
    yield from end_specs(model)
    for layer in model.layers:
        for name, spec in layer_specs(layer, model.hidden):
            yield f"layers.{layer.index}.{name}", spec


def end_specs(model: Model) -> Iterator[tuple[str, TensorSpec]]:
    """(name, weight) outside the layers; those of `Model.collapse` are called "collapse.…"."""
    for spec in model.ends():
        yield spec.name, spec
    if model.collapse is not None:
        for spec in parts().get(model.collapse.kind).tensors(model.collapse, model.hidden):
            yield f"collapse.{spec.name}", spec


def distinct(model: Model) -> Iterator[tuple[str, TensorSpec]]:
    """The same as `specs`, of layers that are built alike the first one only."""
    yield from end_specs(model)
    seen = set()
    for layer in model.layers:
        for place, part in layer.parts():
            if (place, part) not in seen:
                seen.add((place, part))
                for spec in parts().get(part.kind).tensors(part, model.hidden):
                    yield f"layers.{layer.index}.{place}.{spec.name}", spec


def layer_specs(layer: Layer, hidden: int) -> Iterator[tuple[str, TensorSpec]]:
    """(name within the layer, weight)."""
    for place, part in layer.parts():
        for spec in parts().get(part.kind).tensors(part, hidden):
            yield f"{place}.{spec.name}", spec


def encoder_specs(encoder: Encoder) -> Iterator[tuple[str, TensorSpec]]:
    """(name within the tower, weight): "patches.proj", "layers.0.mixer.q", "taps.0.up", "connector.down"."""
    for index, place, part in encoder.places():
        prefix = place if index is None else f"layers.{index}.{place}"
        for spec in parts().get(part.kind).tensors(part, encoder.hidden):
            yield f"{prefix}.{spec.name}", spec

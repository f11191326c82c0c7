"""What one card holds only while a step runs, and what talking to other cards takes. Needs no torch."""

from collections.abc import Iterable, Sequence

from day0.engine.footprint import aligned
from day0.engine.rules import named_rules
from day0.spec import dtype as number
from day0.spec.encoder import Encoder
from day0.spec.model import Layer, Model, PartSpec, TensorSpec
from day0.spec.ops import Site
from day0.spec.placement import ONE_CARD, Placement
from day0.spec.record import record
from day0.spec.registry import parts
from day0.spec.rules import Rules

MIB = 1 << 20
PATCHES = 4  # of an image that become one token
INDEX_ENTRY = 132  # bytes of a key and its scale where keys are gathered: 128 + 4


@record
class Step:
    """The largest step of a card."""

    dtype: str  #: compute type
    tokens: int  #: of the step
    context: int  #: tokens of the longest sequence
    place: Placement  #: how the model is cut
    rules: Rules  #: the engine's

    def bytes(self, count: int) -> int:
        """Bytes of `count` elements."""
        return number.size(self.dtype, count)


def activations(
    model: Model, dtype: str, *, tokens: int, outputs: int, context: int, place: Placement = ONE_CARD, rules: Rules | None = None,
    layers: Sequence[Layer] = (),
) -> dict[str, int]:  # fmt: skip
    """Peak bytes on one card of a step of `tokens` tokens, `outputs` of them with logits, by what they are for.

    `layers` are one of each kind where they are known; without, all of the model's.
    """
    step = Step(dtype=dtype, tokens=tokens, context=context, place=place, rules=rules or named_rules())
    streams = max((getattr(layer.residual, "streams", 1) for layer in model.layers), default=1)
    kinds = {id(part): part for layer in layers or model.layers for _, part in layer.parts()}.values()
    rows = -(-model.vocab // place.tp)
    return {
        "stream": step.bytes((2 * streams + 2) * tokens * model.hidden),
        "sublayer": max((_held(part, model.hidden, step) for part in kinds), default=0),
        "logits": step.bytes(outputs * rows) + number.size("float32", outputs * (rows if place.tp == 1 else rows + model.vocab)),
        **_choice(kinds, model.hidden, step),
    }


def _held(part: PartSpec, D: int, step: Step) -> int:
    """Bytes that a sublayer holds at once in prefill: results of its operators, and float32 copies where one works on them."""
    specs = {spec.name: spec for spec in parts().get(part.kind).tensors(part, D)}
    return sum(_site(site, specs, step) for site in parts().get(part.kind).sites(part, D, "prefill"))


def _site(site: Site, specs: dict[str, TensorSpec], step: Step) -> int:
    tp, tokens = step.place.tp, step.tokens
    match site.op:
        case "linear":
            rows = step.context if site.options.get("rows") == "S" else tokens
            cut = any(name in specs and specs[name].split == "column" for name in site.weights)
            return step.bytes(rows * (-(-site.O // tp) if cut else site.O))
        case "rotary":
            return 3 * number.size("float32", tokens * -(-site.H // tp) * site.Q)
        case "gated_activation" | "activation":
            return step.bytes(tokens * -(-site.F // tp))
        case "experts":
            return _experts(site, step)
        case "full_attention":
            return step.bytes(tokens * site.H * site.Q)
        case "attention" | "paged_attention":
            return step.bytes(tokens * -(-site.H // tp) * site.V)
    return 0


def _experts(site: Site, step: Step) -> int:
    """Each token once, or where engines permute, once for each of its experts on the card: input, two halves, product, output."""
    place, tokens = step.place, step.tokens
    F = -(-site.F // place.expert_tp)
    if not step.rules.permutes:
        return step.bytes(tokens * (3 * F + 2 * site.D)) + number.size("float32", tokens * site.D)
    copies = -(-tokens * place.dp * site.K // place.ep)
    return step.bytes(max(tokens, copies) * (3 * F + 2 * site.D))


def _choice(kinds: Iterable[PartSpec], D: int, step: Step) -> dict[str, int]:
    """Scores of all tokens that may be chosen, and the keys that are gathered for them."""
    index = step.rules.index
    sites = [site for part in kinds for site in parts().get(part.kind).sites(part, D, "prefill")]
    naive = [scores(site, step.context, step.tokens) for site in sites if site.op in ("index_scores", "choose_entries")]
    if not naive:
        return {}
    held = {"index scores": max(naive) if index.logits_mib is None else min(max(naive), int(index.logits_mib * MIB))}
    return held | ({"index keys": gathered(step.context, step.rules)} if index.gather_tokens else {})


def encoding(encoder: Encoder, dtype: str, patches: int) -> int:
    """Peak bytes while an image of `patches` patches is encoded, view by view: pixels, the stream as in a layer, the widest part."""
    patches = min(patches, encoder.view or patches)
    step = Step(dtype=dtype, tokens=patches, context=patches, place=ONE_CARD, rules=named_rules())
    widest = max(_held(part, encoder.hidden, step) for _, _, part in encoder.places())
    pixels = 3 * encoder.frames * encoder.side**2
    return number.size("float32", patches * pixels) + step.bytes(patches * pixels + 4 * patches * encoder.hidden) + widest


def embeddings(encoder: Encoder, dtype: str, patches: int) -> int:
    """Bytes of what an image of `patches` patches becomes, taps included."""
    return number.size(dtype, -(-patches // encoder.merge**2) * encoder.out * (1 + len(encoder.taps)))


def images(widths: tuple[int, int], hidden: int, dtype: str, count: int, tokens: int) -> dict[str, int]:
    """Bytes of images on the card that has towers which another engine runs: embeddings kept for the decoder, and the encoder's live set.

    `widths` are those of the tower's stream and of its widest matrix; an image of `tokens` tokens has some patches for each.
    """
    rows = count * tokens
    return {"image embeddings": number.size(dtype, rows * hidden), "encoder": number.size(dtype, PATCHES * rows * (3 * widths[0] + 2 * widths[1]))}


def scores(site: Site, context: int, tokens: int) -> int:
    """Bytes of the scores of `tokens` queries by every head in float32."""
    return 4 * tokens * site.H * -(-context // int(site.options.get("every", 1)))


def gathered(context: int, rules: Rules) -> int:
    """Bytes that an engine keeps for index keys it gathers: by the longest context, not by load."""
    return rules.index.gather_tokens * context * INDEX_ENTRY


def collectives(model: Model, place: Placement, rules: Rules) -> dict[str, int]:
    """Buffers of communication on one card, by what they are for."""
    groups = sum([place.tp > 1, place.dp > 1, place.pp > 1, 1 < place.ep != place.tp])
    found = {"groups": int(groups * rules.group_gib.p50 * (1 << 30))} if groups else {}
    experts = max((getattr(layer.ffn, "experts", 0) for layer in model.layers), default=0)
    if place.ep > 1 and place.dp > 1 and rules.dispatch_tokens and experts:
        found["expert exchange"] = exchange(experts + place.redundant, rules.dispatch_tokens, model.hidden)
    return found


def exchange(experts: int, tokens: int, hidden: int) -> int:
    """Bytes of the low-latency buffers of DeepEP (csrc/legacy/config.hpp): for sends and receives of `tokens` tokens a rank, twice.

    They grow with all experts, and do not shrink with more ranks.
    """
    scales = hidden // 128 * 4
    dispatch, combine = 16 + max(2 * hidden, hidden + scales), 2 * hidden + scales
    size = 2 * (max(tokens * dispatch, experts * tokens * combine) + max(experts * tokens * dispatch, experts * tokens * combine))
    size += 2 * aligned(4 * experts, 128)
    return (size + 128) // 128 * 128

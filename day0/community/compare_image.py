"""A prompt with an image: what the tower makes of it, and the logits, next to the class of transformers that reads both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.compare_model import Logits
from day0.community.descend import first_wrong
from day0.community.media import media
from day0.community.passing import Passing
from day0.community.reference import Reference
from day0.community.statistics import compare, dtype_name
from day0.community.trail import Trail
from day0.engine import footprint
from day0.engine.bind import Bound, Function, Place
from day0.engine.eye import place
from day0.engine.packed import Workspace
from day0.engine.probe import Call, Judge
from day0.engine.vision import Vision, axes
from day0.spec.picture import Picture
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.whole_evidence import ModelEvidence, TowerEvidence

TEXT = 16  # tokens of text around the image
PART = "logits with an image"


@dataclass(frozen=True)
class Sight:
    """One image in a short text, read by ours and by the reference, in each type."""

    bench: Bench
    workload: WorkloadRow  # that images were planned for
    picture: Picture
    text: Sequence[int]

    @cached_property
    def prompt(self) -> tuple[list[int], Any]:
        """(tokens, the image where it is)."""
        token = self.picture.token
        words = [word for word in self.text if word != token][:TEXT]
        return place([*words[: TEXT // 2], token, *words[TEXT // 2 :]], [self.picture], token)

    @cached_property
    def references(self) -> dict[torch.dtype, Reference]:
        """With their towers, and a layer at a time."""
        checkpoint, device = self.bench.release.checkpoint, self.bench.probes[torch.float32].device
        return {dtype: Reference.open(checkpoint, dtype, range(0), device, towers=True) for dtype in self.bench.maps}

    @cached_property
    def given(self) -> dict[torch.dtype, dict[str, Tensor]] | None:
        """What the class is given of the image; None where it wants it otherwise."""
        ids = torch.tensor([self.prompt[0]])
        found = {dtype: media(reference.model, ids, self.prompt[1]) for dtype, reference in self.references.items()}
        return None if any(one is None for one in found.values()) else {dtype: one for dtype, one in found.items() if one is not None}

    @torch.no_grad()
    def features(self, dtype: torch.dtype) -> Tensor:
        """[N, D] of the reference."""
        assert self.given is not None
        media = {name: value for name, value in self.given[dtype].items() if name != "mm_token_type_ids"}
        return torch.cat(list(self.references[dtype].model.model.get_image_features(**media).pooler_output))

    def vision(self, dtype: torch.dtype, judge: Judge | None = None) -> Vision:
        """Our tower; `judge` sees its operator calls."""

        def watch(at: Place, op: str, function: Function) -> Function:
            def observed(*args: Any, **kwargs: Any) -> Any:
                result = function(*args, **kwargs)
                if judge and at[1].startswith("vision."):
                    judge(Call(layer=at[0], place=at[1].removeprefix("vision."), phase=at[2], op=op, args=args, kwargs=kwargs, result=result))
                return result

            return observed

        release, name = self.bench.release, dtype_name(dtype)
        device = self.bench.probes[dtype].device
        bound = Bound(self.bench.maps[dtype].sites, Workspace(footprint.workspace(release, name, True), device), watch)
        return Vision(release, self.workload.model_copy(update={"dtype": name}), bound, device)

    def tower(self) -> Iterator[TowerEvidence]:
        """What the tower makes of the image, in each type."""
        truth = self.features(torch.float32)
        for dtype in self.bench.maps:
            peer = None if dtype == torch.float32 else self.features(dtype)
            errors = compare(self.vision(dtype).encode(self.picture).embeddings_ND, truth, peer, dtype)
            yield TowerEvidence(layer=None, part="tower", dtype=dtype_name(dtype), patches=self.picture.patches, errors=errors)

    def located(self, evidence: TowerEvidence) -> TowerEvidence:
        """With the first call of the tower whose result does not pass through the reference's; as it was where each does."""
        with Passing(self.picture.patches) as passing:
            self.features(torch.float32)
        trail = Trail()
        with trail, torch.no_grad():
            self.vision(torch.float32, trail.call).encode(self.picture)
        wrong = first_wrong(trail.calls, passing, "residual")
        if wrong is None:
            return replace(evidence, where="connector")
        call, _, wrong_T = wrong
        where = call.place if call.layer is None else f"layer {call.layer} {call.place}"
        return replace(evidence, where=where, op=call.op, row=int(wrong_T.int().argmax()))

    def logits(self) -> Iterator[ModelEvidence]:
        """Of the whole prompt, in each type, with the reference's experts."""
        assert self.given is not None
        tokens = self.prompt[0]
        truth, chosen = self.references[torch.float32].look(tokens, self.given[torch.float32])
        for dtype in self.bench.maps:
            peer = None if dtype == torch.float32 else self.references[dtype].look(tokens, self.given[dtype], chosen)[0]
            tally = Logits(dtype)
            tally.add(self._ours(dtype, chosen), truth, peer)
            yield replace(tally.evidence(True), part=PART)

    @torch.no_grad()
    def _ours(self, dtype: torch.dtype, chosen: Sequence[Tensor | None]) -> Tensor:
        bench, probe, (tokens, placed) = self.bench, self.bench.probes[dtype], self.prompt
        images = self.vision(dtype).images(0, [(0, len(tokens), placed)])
        assert images is not None and bench.release.model.encoder is not None
        places_3S = axes(len(tokens), placed, bench.release.model.encoder.merge)
        stream = probe.embed([0 if token == self.picture.token else token for token in tokens], images=images)
        for index in range(len(bench.release.model.layers)):
            experts = chosen[index * len(chosen) // len(bench.release.model.layers)]
            stream = probe.layer(index, stream, experts, [len(tokens)], ids=tokens, axes_3S=places_3S).hidden_TD
            if index < len(images.taps):
                stream = stream.index_add(0, images.rows_N, images.taps[index])
        return probe.head(stream)

"""The format that a configuration gives each weight: asked only where no header tells."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from math import comb
from typing import Any, NamedTuple

LEFT_OUT = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "modules_to_not_quantize")  # one list, as tools call it
MODELOPT = {
    "NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4", "MXFP8": "mxfp8",
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8_block",
}  # fmt: skip
LONGEST = 1000  # characters of a regular expression that is tried
REPEATED = 9  # repetitions in it
STEPS = 2_000_000  # ways to match it that may be tried on one name
GROUPS = {"nvfp4": 16, "mxfp4": 32, "mxfp8": 32, "int4": 128, "gptq": 128, "awq": 128}  # inputs that share a scale, unless it is said
USUAL = (128, 128)  # block of fp8, unless it is said


class Packing(NamedTuple):
    """How one weight is stored."""

    format: str  #: file name in `formats/`; "" for a scheme that no format stands for
    block: tuple[int, ...] = ()  #: elements that share one scale, along the last axes


PLAIN = Packing("plain")


class Scheme:
    """What a quantisation configuration says of linear maps and experts."""

    def __init__(self, quantization: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        self.quantization, self.config = quantization, config
        self.ignored = [matcher(entry) for key in LEFT_OUT for entry in _list(quantization.get(key)) if isinstance(entry, str)]
        named = quantization.get("quantized_layers")
        self.named: Mapping[str, Any] = named if isinstance(named, Mapping) else {}
        self.method = str(quantization.get("quant_method", "")).lower()
        self.general = None if self.named else self._general()

    def packing(self, modules: Iterable[str], *, expert: bool) -> Packing:
        """How the weight of a module is stored that may be called any of `modules`; `expert`: of a routed one."""
        modules = list(modules)
        if self.named:
            found = next((self.named[name] for name in modules if name in self.named), None)
            return _modelopt(found) if isinstance(found, Mapping) else PLAIN
        if self.general is None or any(ignores(name) for ignores in self.ignored for name in modules):
            return PLAIN
        if self.method == "mxfp4":
            return self.general if expert else PLAIN
        four = str(_first(self.config, "expert_dtype")).lower() == "fp4"
        return Packing("mxfp4", (1, GROUPS["mxfp4"])) if expert and four and self.general.format == "fp8_block" else self.general

    @property
    def understood(self) -> bool:
        """False where weights are packed in a way that no format stands for."""
        said = [_modelopt(entry) for entry in self.named.values() if isinstance(entry, Mapping)] if self.named else [self.general or PLAIN]
        return all(packing.format for packing in said)

    def _general(self) -> Packing | None:
        """Of every module that is not left out; None where nothing is packed."""
        said = self.quantization
        if not said:
            return None
        if isinstance(said.get("quant_algo"), str):
            return _modelopt(said)
        if self.method == "fp8":
            block = _list(said.get("weight_block_size"))
            return Packing("fp8_block", tuple(block)) if _whole(block, 2) else Packing("fp8")
        if self.method in ("mxfp4", "gptq", "awq"):
            return _grouped(self.method, said.get("group_size")) if said.get("bits", 4) == 4 else Packing("")
        groups = said.get("config_groups")
        members = [group for group in groups.values() if isinstance(group, Mapping)] if isinstance(groups, Mapping) else []
        return _compressed(members[0], said) if members else Packing("")


def matcher(entry: str) -> Any:
    """Whether an entry of a list of modules speaks of a module: `re:` a regular expression, `*` a pattern, else its name or its last words."""
    if entry.startswith("re:"):
        try:
            return _expression(entry[3:])
        except (re.error, OverflowError, RecursionError):
            return lambda _name: False
    if "*" in entry:
        patterns = (entry, f"{entry}.*")
        return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)
    return lambda name: f".{entry}." in f".{name}."


def _expression(pattern: str) -> Callable[[str], bool]:
    """Matches in a time that does not explode: what repeats a group, or has too many ways to match a name, matches none."""
    repeated, groups = len(re.findall(r"[*+{]|(?<![(*+}])\?", pattern.removesuffix("$").removesuffix(".*"))), max(1, pattern.count("("))
    if len(pattern) > LONGEST or repeated > REPEATED or re.search(r"\)[*+{]", pattern):
        return lambda _name: False
    match = re.compile(pattern).match
    choices = (1 + pattern.count("|") / groups) ** groups
    return lambda name: choices * comb(len(name) + repeated, repeated) < STEPS and match(name) is not None


def _compressed(group: Mapping[str, Any], said: Mapping[str, Any]) -> Packing:
    """One group of compressed-tensors."""
    weights = group.get("weights")
    if not isinstance(weights, Mapping):
        return PLAIN
    form = str(group.get("format") or said.get("format") or "")
    bits, kind = weights.get("num_bits"), weights.get("type")
    if kind == "float" and bits == 4:
        return _grouped("mxfp4" if "mxfp4" in form else "nvfp4", None)
    if kind == "float" and bits == 8:
        block = _list(weights.get("block_structure"))
        return Packing("fp8_block", tuple(block)) if _whole(block, 2) else Packing("fp8")
    return _grouped("int4", weights.get("group_size")) if kind == "int" and bits == 4 else Packing("")


def _modelopt(said: Mapping[str, Any]) -> Packing:
    form = MODELOPT.get(str(said.get("quant_algo")), "")
    return Packing(form, USUAL) if form == "fp8_block" else _grouped(form, said.get("group_size"))


def _grouped(form: str, size: Any) -> Packing:
    """With groups of the stated size where the format leaves a choice."""
    if form not in GROUPS:
        return Packing(form)
    free = form in ("int4", "gptq", "awq") and type(size) is int and size > 0
    return Packing(form, (1, size if free else GROUPS[form]))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(block: list[Any], length: int) -> bool:
    return len(block) == length and all(type(side) is int and side > 0 for side in block)


def _first(config: Mapping[str, Any], key: str) -> Any:
    """At the top of a configuration, or of an object within it."""
    return next((data[key] for data in _nested(config) if key in data), None)


def _nested(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config
    yield from (value for value in config.values() if isinstance(value, Mapping))

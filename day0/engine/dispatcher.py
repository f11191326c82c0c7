"""Which of torch's operators a dispatch key has: as registered in this process, or as torch's own sources declare for every key."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import torch
import yaml

from day0.engine.watch import SAME, WHOLE
from day0.spec.errors import Day0Error
from day0.spec.reports.base import Loader
from day0.spec.target import Dispatcher

EXPLICIT = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
IMPLICIT = "CompositeImplicitAutograd"


def registered(key: str) -> Dispatcher:
    """What this process has registered. An operator whose `.out` form has a kernel has one in all of its forms."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key
    direct = plain(names(key))
    composite = plain(name for each in (*EXPLICIT, IMPLICIT) for name in names(each)) - direct
    return Dispatcher(key=key, source=f"registrations in torch {torch.__version__}", direct=sorted(direct), composite=sorted(composite))


def declared(key: str) -> Dispatcher:
    """What the file of all operators, which comes with torch, declares for a key; operators of other libraries are not in it."""
    found = find_spec("torchgen")
    path = Path(found.origin or "").parent / "packaged/ATen/native/native_functions.yaml" if found else Path("native_functions.yaml")
    if not path.is_file():
        raise Day0Error("the installed torch does not carry its declarations", path, hint="install torch from its own wheels")
    direct, composite = set(), set()
    for entry in yaml.load(path.read_text(encoding="utf-8"), Loader=Loader):
        name = entry["func"].partition("(")[0]
        keys = {each.strip() for listed in entry.get("dispatch", {}) for each in listed.split(",")}
        if key in keys:
            direct.add(name)
        elif keys & {*EXPLICIT, IMPLICIT} or not (keys or entry.get("structured_delegate")):
            composite.add(name)
    direct, composite = plain(direct), plain(composite)
    source = f"native_functions.yaml of torch {torch.__version__.partition('+')[0]}"
    return Dispatcher(key=key, source=source, direct=sorted(direct), composite=sorted(composite - direct))


def plain(names: Iterable[str]) -> set[str]:
    """Names of aten without namespace, overload and the mark of working in place."""
    found = set()
    for name in names:
        space, _, rest = name.rpartition("::")
        if space in ("", "aten"):
            word = rest.partition(".")[0]
            word = word if word.startswith("__") else word.rstrip("_")
            found.add(WHOLE if word.startswith("_scaled_dot_product") else SAME.get(word, word))
    return found

"""What a resident and a streamed run of SmolLM2-135M-Instruct hold in bfloat16: the process's own figure beside the engine's account.

    python bench/memory.py [--prompt 1024] [--new 16]

Each mode runs in a process of its own. Held is the peak resident set after imports and one product of each shape (which makes oneDNN
generate its code), less the resident set at that moment. The account is what the engine says it allocated, and the plan's formula for activations.
`validate` runs every layer in both types with streamed weights; the library that it compares with is imported before.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day0.backends.cpu import BACKEND
from day0.engine.batch import Engine
from day0.engine.heap import return_freed_memory
from day0.engine.release import Release
from day0.spec.request import Request
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.plan_memory import plan_memory
from tests import smollm2

MIB = 1 << 20


def warm(rows: int) -> int:
    """Bytes of the process once libraries have made the code that products of these shapes need."""
    for out, width in ((960, 576), (576, 576), (3072, 576), (576, 1536), (4096, 576)):
        x, matrix = torch.randn(rows, width).bfloat16(), torch.randn(out, width).bfloat16()
        torch.nn.functional.linear(x, matrix).float().softmax(-1).argmax(-1)
        torch.mv(matrix, x[0])
    heads = torch.randn(1, 3, rows, 64).bfloat16()
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    del x, matrix, heads
    BACKEND.reset_peak(None)
    return BACKEND.memory(None)["used"]


def generate(folder: Path, residency: str, prompt: int, new: int) -> dict[str, int]:
    """One prompt and its answer → bytes held, and the engine's account."""
    inspected, machine = inspect(folder), find_machine(None)
    load = Workload(context=prompt + new, batch=1, dtype="bfloat16", weights=residency, chunk=prompt)  # type: ignore[arg-type]
    plan = plan_memory(inspected, machine, load)
    mapped = map_ops(inspected, plan, machine)
    return_freed_memory()
    before = warm(prompt)
    engine = Engine.start(Release.open(folder), plan, mapped, None, torch.device("cpu"))  # no tokenizer: it is not the engine's
    engine.add(Request(id="0", tokens=tuple(range(1000, 1000 + prompt)), max_new=new))
    while engine.busy:
        engine.step()
    return {"held": BACKEND.memory(None)["peak"] - before, **engine.account()}


def import_reference() -> None:
    """Run a model of a few numbers, so that transformers has loaded the code of the class."""
    config = transformers.LlamaConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100)
    transformers.AutoModelForCausalLM.from_config(config)(torch.tensor([[1, 2, 3]]))


def validate_all(folder: Path) -> dict[str, int]:
    """`validate --layer all` → bytes held."""
    from day0.stages.validate import validate

    inspected, machine = inspect(folder), find_machine(None)
    plan = plan_memory(inspected, machine, Workload(context=512, batch=1, dtype="bfloat16", weights="streamed"))
    mapped = map_ops(inspected, plan, machine)
    return_freed_memory()
    import_reference()
    before = warm(512)
    report = validate(inspected, plan, mapped, layers="all")
    assert report.verdict == "pass", report.first_divergence
    return {"held": BACKEND.memory(None)["peak"] - before}


def child(mode: str, args: argparse.Namespace) -> dict[str, int]:
    """Run one mode in a fresh process."""
    command = [sys.executable, __file__, "--mode", mode, "--prompt", str(args.prompt), "--new", str(args.new)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["resident", "streamed", "validate"], help="run one mode and print its figures as JSON")
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--new", type=int, default=16)
    args = parser.parse_args()
    folder = smollm2.checkpoint()
    if folder is None:
        sys.exit(smollm2.unavailable())
    if args.mode:
        torch.set_num_threads(2)
        print(json.dumps(validate_all(folder) if args.mode == "validate" else generate(folder, args.mode, args.prompt, args.new)))
        return
    figures = {mode: child(mode, args) for mode in ("resident", "streamed", "validate")}
    resident = figures["resident"]["held"]
    print(f"SmolLM2-135M-Instruct in bfloat16, {args.prompt} tokens of prompt, {args.new} new; MiB")
    print(f"{'':10}{'held':>8}{'of resident':>13}{'account':>9}{'ratio':>7}   weights, state, workspace, activations")
    for mode, found in figures.items():
        held, account = found.pop("held"), sum(found.values())
        line = f"{mode:10}{held / MIB:8.1f}{held / resident:13.2f}"
        parts = ", ".join(f"{size / MIB:.1f}" for size in found.values())
        print(f"{line}{account / MIB:9.1f}{held / account:7.2f}   {parts}" if account else line)


if __name__ == "__main__":
    main()

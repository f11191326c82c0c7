"""Prefill and decode speed on SmolLM2-135M-Instruct, as a ratio to transformers on the same files in the same run.

    python bench/decode.py [--threads 2] [--rounds 5] [--prompt 128] [--new 32]

Both run in one process, in turn, round by round; figures are medians over the rounds. Greedy; both take the logits of the last token only.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day0.engine.model import Forward
from day0.engine.state import State
from day0.spec.step import Step
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.opening import planned
from day0.stages.plan_memory import plan_memory
from tests import smollm2

Speeds = tuple[float, float]  # prefill and decode, tokens a second


def native(folder: Path, dtype: str, batch: int, context: int) -> tuple[Forward, State]:
    """The engine, through the same reports as any other run."""
    inspected, machine = inspect(folder), find_machine(None)
    load = Workload(context=context, batch=batch, dtype=dtype, chunk=batch * context)
    plan = plan_memory(inspected, machine, load)
    engine = planned(plan, map_ops(inspected, plan, machine)).start().engine
    return engine.forward, engine.state


def run_native(forward: Forward, state: State, prompts: list[list[int]], new: int) -> Speeds:
    sequences = [state.admit(len(prompt) + new + 1) for prompt in prompts]
    ends = torch.tensor([len(prompt) for prompt in prompts]).cumsum(0) - 1
    start = time.perf_counter()
    segment = state.segment("prefill", list(zip(sequences, prompts, strict=True)))
    tokens = forward.logits(forward.hidden(Step(decode=None, prefill=segment, outputs=ends))).argmax(-1).tolist()
    middle = time.perf_counter()
    rows = torch.arange(len(prompts))
    for _ in range(new):
        segment = state.segment("decode", [(sequence, [token]) for sequence, token in zip(sequences, tokens, strict=True)])
        tokens = forward.logits(forward.hidden(Step(decode=segment, prefill=None, outputs=rows))).argmax(-1).tolist()
    end = time.perf_counter()
    for sequence in sequences:
        state.free(sequence)
    return sum(map(len, prompts)) / (middle - start), len(prompts) * new / (end - middle)


@torch.inference_mode()
def run_transformers(model: torch.nn.Module, prompts: list[list[int]], new: int) -> Speeds:
    ids, cache = torch.tensor(prompts), transformers.DynamicCache(config=model.config)
    start = time.perf_counter()
    logits = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    tokens = logits[:, -1].argmax(-1, keepdim=True)
    middle = time.perf_counter()
    for _ in range(new):
        tokens = model(tokens, past_key_values=cache, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)
    end = time.perf_counter()
    return ids.numel() / (middle - start), len(prompts) * new / (end - middle)


def median(runs: list[Speeds]) -> Speeds:
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


def compare(ours: Callable[[], Speeds], theirs: Callable[[], Speeds], rounds: int) -> tuple[Speeds, Speeds]:
    """Medians of both, measured in turn after one round that does not count."""
    pairs = [(ours(), theirs()) for _ in range(rounds + 1)][1:]
    return median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("threads", 2), ("rounds", 5), ("prompt", 128), ("new", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    transformers.utils.logging.disable_progress_bar()
    folder = smollm2.checkpoint()
    if folder is None:
        sys.exit(smollm2.unavailable())
    with safe_open(folder / "model.safetensors", "pt") as weights:
        vocab = weights.get_slice("model.embed_tokens.weight").get_shape()[0]
    shape = f"{args.threads} threads, {args.prompt} tokens of prompt, {args.new} new"
    print(f"SmolLM2-135M-Instruct, {shape}; tokens/s, median of {args.rounds}")
    print(f"{'':18} {'prefill':>27} {'decode':>27}")
    print(f"{'type':10} {'batch':>7} {'day0':>9} {'peer':>9} {'ratio':>7} {'day0':>9} {'peer':>9} {'ratio':>7}")
    for dtype in ("bfloat16", "float32"):
        peer = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        for batch in (1, 8):
            prompts = torch.randint(vocab, (batch, args.prompt), generator=torch.Generator().manual_seed(0)).tolist()
            forward, state = native(folder, dtype, batch, args.prompt + args.new + 1)
            ours, theirs = compare(
                lambda forward=forward, state=state, prompts=prompts: run_native(forward, state, prompts, args.new),
                lambda peer=peer, prompts=prompts: run_transformers(peer, prompts, args.new),
                args.rounds,
            )
            cells = "".join(f" {a:9.1f} {b:9.1f} {a / b:7.2f}" for a, b in zip(ours, theirs, strict=True))
            print(f"{dtype:10} {batch:7}{cells}", flush=True)


if __name__ == "__main__":
    main()

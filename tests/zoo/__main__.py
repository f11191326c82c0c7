"""Write tiny checkpoints, or compare seeds: python -m tests.zoo OUT [name ...] | python -m tests.zoo --search 20 [name ...]"""
import argparse
import json
import time
from pathlib import Path

import torch
import transformers

from .assembly import build, search
from .family import names

FLOOR = 3e-4


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("--search", type=int, metavar="SEEDS", help="print the margins of this many seeds; OUT is left out")
    parser.add_argument("words", nargs="*", metavar="OUT [name ...]")
    return parser, parser.parse_intermixed_args()


def compare(name, seeds):
    def width(found):
        margins = found[1]
        return min(margins["topk_margin"] or 1.0, margins["greedy_margin"] / 20)

    for seed, margins in sorted(search(name, range(seeds), FLOOR), key=width, reverse=True)[:3]:
        print(f"{name:24s} seed {seed:3d}  {margins}", flush=True)


def report(folder, seconds):
    notes = json.loads((folder / "expected.json").read_text())
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.name:24s} {seconds:5.1f} s {size / 1e3:7.0f} kB  seed {notes['seed']}  top-k margin {notes['topk_margin']}"
          f"  greedy margin {notes['greedy_margin']:.4f}  logits std {notes['logits_std']:.2f}", flush=True)


def main():
    parser, given = arguments()
    out, wanted = (None, given.words) if given.search else (given.words[:1], given.words[1:])
    unknown = sorted(set(wanted) - set(names()))
    if unknown or out == []:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "OUT is needed")
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in wanted or names():
        if given.search:
            compare(name, given.search)
            continue
        start = time.perf_counter()
        report(build(name, Path(out[0])), time.perf_counter() - start)


if __name__ == "__main__":
    main()

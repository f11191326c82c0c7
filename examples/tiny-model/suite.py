"""Write a suite of questions with known answers for `day0 run --suite`: so many of each kind, pictures as files beside it.

    python examples/tiny-model/suite.py FOLDER --count 500
"""

import argparse
import json
from pathlib import Path
from random import Random

from tasks import KINDS, Sample, sample

NAME = "day0-suite.json"
ABOUT = "Samples of examples/tiny-model/tasks.py that training has not seen."


def write(folder: Path, count: int, seed: int) -> Path:
    """Questions of a kind differ from each other as far as there are so many."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    random, questions = Random(seed), list[dict[str, object]]()
    for kind in KINDS:
        for number, one in enumerate(sample(kind, random) for _ in range(count)):
            questions.append(question(one, folder, f"images/{number:03}.png"))
    file = folder / NAME
    lines = ",\n".join(f"  {json.dumps(each)}" for each in questions)
    file.write_text(f'{{\n "about": {json.dumps(ABOUT)},\n "max_new": 48,\n "questions": [\n{lines}\n ]\n}}\n')
    return file


def question(one: Sample, folder: Path, name: str) -> dict[str, object]:
    """As the file holds it."""
    found: dict[str, object] = {"kind": one.kind, "prompt": one.prompt, "answer": one.answer}
    if one.image:
        one.image.save(folder / name, optimize=True)
        found["images"] = [name]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=500, help="questions of each kind")
    parser.add_argument("--seed", type=int, default=1_000_003)
    wanted = parser.parse_args()
    print(write(wanted.folder, wanted.count, wanted.seed))


if __name__ == "__main__":
    main()

"""Write a suite of questions with known answers for `day0 run --suite`: so many of each kind, pictures as files beside it.

    python examples/tiny-model/suite.py FOLDER --count 500
"""

import argparse
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from tasks import KINDS, Sample, sample

NAME = "day0-suite.json"
ABOUT = "Samples of examples/tiny-model/tasks.py, drawn from a seed of their own."


def write(folder: Path, count: int, seed: int) -> Path:
    """`count` questions of each kind, from a seed."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    random, questions = Random(seed), list[dict[str, Any]]()
    for kind in KINDS:
        for number, one in enumerate(sample(kind, random) for _ in range(count)):
            questions.append(question(one, folder, f"images/{number:03}.png"))
    return save(folder, {"about": ABOUT, "max_new": 48, "questions": questions})


def save(folder: Path, suite: dict[str, Any]) -> Path:
    """One question a line."""
    rows = {key: value for key, value in suite.items() if isinstance(value, list)}
    said = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in suite.items() if key not in rows]
    said += [f" {json.dumps(key)}: [\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]" for key, value in rows.items()]
    (folder / NAME).write_text("{\n" + ",\n".join(said) + "\n}\n")
    return folder / NAME


def publish(file: Path, folder: Path, measured: list[dict[str, Any]]) -> None:
    """Copy a suite with its pictures, and say in it what others scored."""
    suite = json.loads(file.read_text())
    for name in [name for each in suite["questions"] for name in each.get("images", ())]:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(file.parent / name, folder / name)
    save(folder, suite | {"measured": measured})


def question(one: Sample, folder: Path, name: str) -> dict[str, Any]:
    """As the file holds it."""
    found: dict[str, Any] = {"kind": one.kind, "prompt": one.prompt, "answer": one.answer}
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

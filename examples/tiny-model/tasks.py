"""Endless samples with checkable answers: capitals, sums, counting, recall in lists, repeating, captions and colours of drawn shapes."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw

CAPITALS = {
    "France": "Paris", "Japan": "Tokyo", "Italy": "Rome", "Spain": "Madrid", "Egypt": "Cairo", "Kenya": "Nairobi", "Peru": "Lima",
    "Norway": "Oslo", "Greece": "Athens", "Cuba": "Havana", "Chile": "Santiago", "Poland": "Warsaw", "Austria": "Vienna",
    "Canada": "Ottawa", "China": "Beijing", "India": "New Delhi", "Germany": "Berlin", "Portugal": "Lisbon", "Ireland": "Dublin",
    "Finland": "Helsinki", "Sweden": "Stockholm", "Denmark": "Copenhagen", "Hungary": "Budapest", "Turkey": "Ankara", "Iran": "Tehran",
    "Iraq": "Baghdad", "Thailand": "Bangkok", "Vietnam": "Hanoi", "Nepal": "Kathmandu", "Ghana": "Accra",
}  # fmt: skip
WORDS = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "haven", "indigo", "jasper", "kelp", "lotus", "maple", "nectar",
    "opal", "pine", "quartz", "raven", "slate", "tulip", "umber", "violet", "willow", "xenon", "yarrow", "zinc", "acorn", "birch",
    "coral", "dune", "elm", "fern", "glade", "hazel", "iris", "jade", "kite", "lemon", "mint", "noble", "olive", "pearl", "quill",
    "river", "sage", "thorn", "ultra", "vale", "wheat", "yucca",
)  # fmt: skip
COLOURS = {
    "red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 220), "yellow": (235, 205, 40), "purple": (150, 60, 190),
    "orange": (240, 140, 30), "white": (245, 245, 245), "black": (15, 15, 15),
}  # fmt: skip
BACKGROUNDS = ((128, 128, 128), (200, 200, 200), (90, 90, 110))
SHAPES = ("circle", "square", "triangle")
SIDE = 112  # pixels of a picture


@dataclass(frozen=True)
class Sample:
    """A question with its one right answer."""

    kind: str
    prompt: str
    answer: str
    image: Image.Image | None = None


def fact(random: Random) -> tuple[str, str]:
    country, capital = random.choice(list(CAPITALS.items()))
    return random.choice(
        [
            (f"What is the capital of {country}?", f"The capital of {country} is {capital}."),
            (f"Name the capital city of {country}.", f"{capital}."),
            (f"Which country has {capital} as its capital?", f"{country}."),
        ]
    )


def arithmetic(random: Random) -> tuple[str, str]:
    a, b = random.randrange(20), random.randrange(20)
    if random.random() < 0.5:
        return f"What is {a} + {b}?", f"{a} + {b} = {a + b}."
    a, b = max(a, b), min(a, b)
    return f"What is {a} - {b}?", f"{a} - {b} = {a - b}."


def counting(random: Random) -> tuple[str, str]:
    start = random.randrange(60)
    end = start + random.randrange(3, 12)
    return f"Count from {start} to {end}.", ", ".join(map(str, range(start, end + 1))) + "."


def recall(random: Random, fewest: int = 2, most: int = 4) -> tuple[str, str]:
    """Find the partner of a word: key and value are one token each, and the value follows its key."""
    keys = random.sample(WORDS, random.randint(fewest, most))
    pairs = [f"{key} {random.choice(WORDS)}" for key in keys]
    wanted = random.randrange(len(keys))
    return f"Pairs: {', '.join(pairs)}. Find {keys[wanted]}.", f"Found: {pairs[wanted]}."


def long_recall(random: Random) -> tuple[str, str]:
    return recall(random, 12, 24)


def repeating(random: Random) -> tuple[str, str]:
    words = " ".join(random.sample(WORDS, random.randrange(3, 9)))
    return f"Repeat: {words}", f"Copy: {words}."


TEXT: dict[str, Callable[[Random], tuple[str, str]]] = {
    "facts": fact, "arithmetic": arithmetic, "counting": counting, "recall": recall, "long recall": long_recall, "repeating": repeating,
}  # fmt: skip
KINDS = (*TEXT, "captions")


def caption(random: Random) -> Sample:
    """One shape or two, described; or the colour of the one."""
    image = Image.new("RGB", (SIDE, SIDE), random.choice(BACKGROUNDS))
    two = random.random() < 0.5
    drawn = [(random.choice(list(COLOURS)), random.choice(SHAPES)) for _ in range(1 + two)]
    for (colour, shape), (left, right) in zip(drawn, ((22, 32), (SIDE - 32, SIDE - 22)) if two else ((32, SIDE - 32),), strict=True):
        margin, sizes = (28, (13, 21)) if two else (32, (16, 28))
        put(image, shape, colour, random.randrange(left, right), random.randrange(margin, SIDE - margin), random.randrange(*sizes))
    said = " left of ".join(f"a {colour} {shape}" for colour, shape in drawn)
    questions = [("What is in the image?", f"{said[0].upper()}{said[1:]}."), ("Describe the image.", f"The image shows {said}.")]
    if not two:
        colour, shape = drawn[0]
        questions.append((f"What color is the {shape}?", f"The {shape} is {colour}."))
    return Sample("captions", *random.choice(questions), image)


def put(image: Image.Image, shape: str, colour: str, x: int, y: int, size: int) -> None:
    """Draw a shape around a point."""
    pen, fill = ImageDraw.Draw(image), COLOURS[colour]
    if shape == "circle":
        pen.ellipse([x - size, y - size, x + size, y + size], fill=fill)
    elif shape == "square":
        pen.rectangle([x - size, y - size, x + size, y + size], fill=fill)
    else:
        pen.polygon([(x, y - size), (x - size, y + size), (x + size, y + size)], fill=fill)


def sample(kind: str, random: Random) -> Sample:
    """The next question of a kind."""
    return caption(random) if kind == "captions" else Sample(kind, *TEXT[kind](random))

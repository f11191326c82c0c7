"""What preprocessor configurations say in the same words."""

from collections.abc import Mapping
from typing import Any

from day0.checkpoint.config import Config
from day0.spec.errors import Day0Error

CLIP = {"image_mean": (0.48145466, 0.4578275, 0.40821073), "image_std": (0.26862954, 0.26130258, 0.27577711)}  # of OpenAI's CLIP
HALF = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
LARGEST = 1e6  # mean, deviation or factor
SWITCHES = ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")


def read_colours(config: Config, defaults: Mapping[str, tuple[float, ...]]) -> dict[str, Any]:
    """Fields of a Look: scale, mean and deviation of the channels."""
    for key in SWITCHES:
        if not config.bool(key, True):
            raise Day0Error(f"{key} false is not supported", config.path, hint="images are converted, scaled and normalised")
    mean, std = (tuple(config.list(key, list(default))) for key, default in defaults.items())
    scale = config.float("rescale_factor", 1 / 255)
    numbers = all(isinstance(x, int | float) and abs(x) < LARGEST for x in (*mean, *std, scale))
    if len(mean) != 3 or len(std) != 3 or not numbers or not all(std):
        raise Day0Error("image_mean and image_std are not three numbers each, or a deviation is zero", config.path)
    return {"scale": scale, "mean": mean, "std": std}


def expect_size(config: Config, key: str, expected: int) -> None:
    """Day0Error where the preprocessor cuts other patches than the tower reads."""
    found = config.int(key, expected)
    if found != expected:
        raise Day0Error(f"{key} is {str(found)[:20]}, the tower's is {expected}", config.path, hint="does the file belong to this release?")


def positive_size(config: Config, key: str, default: int, limit: int = 1 << 24) -> int:
    """A number of pixels, patches or tokens."""
    value = int(config.int(key, default))
    if not 0 < value <= limit:
        raise Day0Error(f"{key} is {str(value)[:20]}, must be between 1 and {limit}", config.path)
    return value


def read_resample(config: Config, default: int) -> int:
    """pillow's number of a filter: 2 bilinear, 3 bicubic."""
    value = int(config.int("resample", default))
    if value not in (2, 3):
        raise Day0Error(f"resample {value} is not supported", config.path, hint="2, bilinear, and 3, bicubic, are")
    return value

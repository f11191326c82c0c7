"""Images that a person names, as the tower of a release reads them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from day0.engine.eye import HINT, Eye, picture, walk
from day0.engine.image import read_file
from day0.engine.release import Release
from day0.engine.text import Tokenizer
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.picture import Picture, Placed, View

PIXELS, GRIDS = "pixel_values", "image_grid_thw"  # tensors of a safetensors file, as transformers' processors name them


def open_eye(release: Release) -> Eye:
    """The release's preprocessor; Day0Error when it takes no images."""
    release.require_vision()
    encoder = release.model.encoder
    assert encoder is not None
    return Eye.open(release.folder, encoder, lambda text: Tokenizer.open(release.folder).id(text))


def draw(eye: Eye, most: int) -> Picture:
    """A picture that every filter leaves its trace in: gradients, lines and noise; the largest of some sizes with at most so many patches."""
    import numpy
    from PIL import Image

    for side in (224, 112, 56, 28, 8):
        height, width = side, side * 3 // 2
        down, across = numpy.mgrid[0:height, 0:width]
        gradient = numpy.stack([down * 255 / height, across * 255 / width, (down * 3 + across * 5) % 256], axis=-1)
        noise = numpy.random.default_rng(0).integers(0, 256, (height, width, 3))
        mixed = numpy.where(((down // 3 + across // 5) % 2 == 0)[..., None], gradient, noise)
        found = eye.see(Image.fromarray(mixed.astype("uint8")))
        if found.patches <= most:
            return found
    raise Day0Error(f"the plan takes images of up to {most} patches, which is less than a small one has", hint="plan with more --image-tokens")


def read_pictures(files: Sequence[Path], eye: Eye) -> list[Picture]:
    """One picture a file; of a safetensors file with pixel values as a processor left them, one for each image in it."""
    found: list[Picture] = []
    for file in files:
        if file.suffix == ".safetensors":
            found += given(file, eye.encoder)
        else:
            found.append(eye.read(read_file(file), file))
    return found


def given(file: Path, encoder: Encoder) -> Iterator[Picture]:
    """Images of one view each, whose embeddings follow each other in the prompt."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = {name.removeprefix("image."): tensor for name, tensor in load_file(file).items()}
        pixels, grids = tensors[PIXELS], tensors[GRIDS]
    except (OSError, SafetensorError) as error:
        raise Day0Error(f"not a safetensors file: {error}", file) from None
    except KeyError as error:
        raise Day0Error(f"there is no tensor {error}", file, hint=f"{PIXELS} [patches, …] and {GRIDS} [images, 3]") from None
    patches, at = pixels.reshape(pixels.shape[0], -1).astype("float32"), 0
    width = 3 * encoder.frames * encoder.side**2
    counts = [int(grid.prod()) if grid.shape == (3,) and grid[0] == 1 and not (grid[1:] % encoder.merge).any() else -1 for grid in grids]
    if min(counts, default=-1) < 1 or sum(counts) != patches.shape[0] or patches.shape[1] != width:
        raise Day0Error(f"{list(pixels.shape)} pixel values do not fit the grids {grids.tolist()!r:.60} and patches of {width} numbers", file)
    for grid, count in zip(grids.tolist(), counts, strict=True):
        view = View(patches=patches[at : at + count], grid=(grid[1], grid[2]))
        yield picture((view,), (encoder.token,) * (count // encoder.merge**2), encoder)
        at += count


def hang(sequences: Sequence[Sequence[int]], pictures: list[Picture], token: int) -> tuple[list[list[int]], list[tuple[Placed, ...]]]:
    """Pictures in the order of the placeholders of all sequences, one sequence after the other; each is used once."""
    texts: list[list[int]] = []
    placed: list[tuple[Placed, ...]] = []
    used = left = 0
    for tokens in sequences:
        text, here, more = walk(tokens, pictures[used:], token)
        texts.append(text)
        placed.append(here)
        used, left = used + len(here), left + more
    if left or used != len(pictures):
        raise Day0Error(f"{used + left} image placeholders for {len(pictures)} images", hint=f"{HINT}: token {token} in --ids")
    return texts, placed

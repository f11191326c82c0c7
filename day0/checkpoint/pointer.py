"""What a download leaves where a file should be: the pointer of git-lfs that stands for it, or the words of a server."""

POINTER = b"version https://git-lfs.github.com/spec/"  # github.com/git-lfs/git-lfs, docs/spec.md
UNFETCHED = "a pointer of git-lfs: the file itself was not fetched"
PULL = "run `git lfs pull` in the folder"
START = 60  # bytes that tell


def is_pointer(start: bytes) -> bool:
    """Whether a file that begins so is a pointer."""
    return start.startswith(POINTER)


def words(start: bytes) -> str | None:
    """The first words of a text; None for anything else."""
    text = start[:START].decode("ascii", errors="replace")
    return " ".join(text.split()) if all(character.isprintable() or character.isspace() for character in text) and "�" not in text else None

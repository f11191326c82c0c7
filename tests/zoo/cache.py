"""Folders that are built once per machine and shared by parallel test processes.

They lie below DAY0_TEST_CACHE, by default a folder of the user in the temporary directory.
"""
import fcntl
import getpass
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import torch
import transformers


def root():
    return Path(os.environ.get("DAY0_TEST_CACHE") or Path(tempfile.gettempdir()) / f"day0-tests-{getpass.getuser()}")


def fingerprint(source):
    """Short hash of all Python files of a folder (or one file) and the versions of torch and transformers."""
    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    for path in sorted(source.rglob("*.py")) or [source]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def once(group, name, build):
    """root()/group/name; where it is absent, `build(name, scratch)` writes scratch/name, which is then moved there."""
    parent = root() / group
    target = parent / name
    if target.exists():
        return target
    parent.mkdir(parents=True, exist_ok=True)
    with open(parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(dir=parent, prefix=f".{name}-"))
            try:
                os.rename(build(name, scratch), target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target

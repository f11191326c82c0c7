"""`day0 --help` is light: it answers at once and loads neither torch nor rich."""

import resource
import subprocess
import sys

HEAVY = {"torch", "rich", "transformers", "numpy", "pydantic", "fastapi"}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


def test_help_imports_nothing_heavy() -> None:
    done = run("import sys; from day0.cli.app import main; code = main(['--help']); print(code, *sys.modules, file=sys.stderr)")
    code, *modules = done.stderr.split()
    assert code == "0"
    assert "The chain" in done.stdout
    assert HEAVY.isdisjoint(modules)


def test_help_of_every_command_imports_nothing_heavy() -> None:
    every = "sum(main([name, '--help']) for name in commands())"
    done = run(f"import sys; from day0.cli.app import commands, main; print({every}, *sys.modules, file=sys.stderr)")
    code, *modules = done.stderr.split()
    assert code == "0"
    assert {"torch", "rich", "transformers", "fastapi"}.isdisjoint(modules)


def test_help_answers_at_once() -> None:
    """0.3 s of a processor, best of five: waiting for other work on the machine does not count."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "day0", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.3

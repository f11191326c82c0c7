"""What every report has: a schema and its version, where it came from, and strict reading and writing."""

import hashlib
import json
import os
import shlex
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import day0
from day0.spec.errors import Day0Error

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Strict(BaseModel):
    """A block of a report: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Input(Strict):
    """A file that a report was made from."""

    path: str = Field(description="absolute path of the file")
    sha256: str = Field(description="hex digest of its content; of its header for a weight shard")
    bytes: int = Field(description="size of the file, in bytes")


class Provenance(Strict):
    """What made a report."""

    tool: str = Field(default=f"day0 {day0.__version__}", description="tool and version")
    command: list[str] = Field(default_factory=list, description="command line, program first")
    layout: str = Field(default="", description="digest of the report's schema: fields and their descriptions, as this tool knows them")
    inputs: list[Input] = Field(default_factory=list, description="every file that was read, and what it held")


class FindingRow(Strict):
    """One verdict of one check (see day0.spec.finding)."""

    code: str = Field(description="code of the check; `day0 explain CODE` tells more")
    status: Literal["pass", "fail", "warn", "unknown"] = Field(description="fail makes the answer no")
    subject: str = Field(description="file, tensor, config key or layer that it is about")
    expected: str = Field(default="", description="what should have been there")
    found: str = Field(default="", description="what was there")
    hint: str = Field(default="", description="what to do")


class Report(Strict):
    """Base of all reports; `STAGE` and `VERSION` are the identity of the schema."""

    STAGE: ClassVar[str]
    VERSION: ClassVar[int] = 1
    COMMAND: ClassVar[str]  # the command that makes it, for hints

    schema_name: str = Field(alias="schema", default="", description="day0.<stage>/v<major>")
    provenance: Provenance = Field(default_factory=Provenance, description="what made this report")
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def model_post_init(self, _context: Any) -> None:
        if not self.schema_name:
            self.schema_name = self.identity()
        self.provenance.layout = self.provenance.layout or self.layout()

    @classmethod
    @cache
    def layout(cls) -> str:
        """Digest of the schema: a change of fields, or of what they mean, makes older reports unreadable without a new version."""
        return hashlib.sha256(json.dumps(cls.model_json_schema(), sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def identity(cls) -> str:
        """Name and major version of the schema."""
        return f"day0.{cls.STAGE}/v{cls.VERSION}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, in the order of the fields."""
        return self.model_dump(mode="json", by_alias=True)

    def to_yaml(self) -> str:
        """The report as it is written to disk."""
        return yaml.dump(self.to_dict(), Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True)

    def to_json(self) -> str:
        """The report as `--json` prints it."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def write(self, path: Path) -> Input:
        """Write it to `path`; returns the file as an input of later reports."""
        return replace(path, self.to_yaml().encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check; every way it can be wrong is an error that names the command to run."""
        mend = f"run `{cls.COMMAND}` to make it"
        if not path.is_file():
            raise Day0Error(f"there is no {cls.STAGE} report", path, hint=mend)
        try:
            data = yaml.load(path.read_text(), Loader=Loader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise Day0Error(f"not YAML: {str(error).splitlines()[0]}", path, hint=mend) from None
        found = data.get("schema") if isinstance(data, dict) else None
        if found != cls.identity():
            raise Day0Error(f"expected schema {cls.identity()}, found {found!r}", path, hint=mend)
        told = data.get("provenance")
        told = told if isinstance(told, dict) else {}
        if told.get("layout") != cls.layout():
            command = told.get("command")
            again = shlex.join(map(str, command)) if isinstance(command, list) and command else cls.COMMAND
            raise Day0Error("made by another version of day0, whose reports have other fields", path, hint=f"run `{again}` again")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise Day0Error(f"{key}: {first['msg']}", path, hint=mend) from None


def file_input(path: Path) -> Input:
    """A small file as an input: digest of its whole content."""
    return _input(path.absolute(), path.read_bytes())


def replace(path: Path, content: bytes) -> Input:
    """Write beside, then rename: nobody sees half a file. The file as an input of later reports."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
    return _input(path.resolve(), content)


def _input(path: Path, content: bytes) -> Input:
    return Input(path=str(path), sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))

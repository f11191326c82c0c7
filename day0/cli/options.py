"""Options that several commands share, each written once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the released model.")]
ReleaseArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the release, hf://owner/name[@revision], or https://…")]
OptionalModel = Annotated[Path | None, typer.Argument(metavar="[MODEL]", help="Folder of the model; default: the last one.")]
ModelOption = Annotated[Path | None, typer.Option("--model", metavar="MODEL", help="Folder of the model; default: the last one.")]
Machine = Annotated[str | None, typer.Option("--machine", metavar="NAME", help="Machine profile, or a YAML file; default: this machine.")]
Reports = Annotated[Path, typer.Option("--reports", metavar="DIR", help="Folder of the reports.")]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Yaml = Annotated[bool, typer.Option("--yaml", help="Print the report as YAML.")]
Dtype = Annotated[str | None, typer.Option("--dtype", metavar="TYPE", help="float32, bfloat16 or float16; default: the release's.")]
Device = Annotated[str | None, typer.Option("--device", metavar="NAME", help="cpu, cuda, …; default: the plan's.")]
Context = Annotated[str | None, typer.Option("--context", metavar="TOKENS", help="Longest sequence; 128k is 131072.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Sequences at once.")]
Executor = Annotated[
    Literal["native", "community"], typer.Option("--executor", help="native: day0's engine; community: transformers.")
]
Weights = Annotated[
    Literal["resident", "streamed"] | None, typer.Option("--weights", help="In memory, or read layer by layer; default: the plan's.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Processor threads; default: one for each core.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Allow code that lies in the model's folder to run.")]

Vision = Annotated[bool | None, typer.Option("--with-vision/--no-vision", help="Take images: load their tower; default: the engine's way.")]
ImageTokens = Annotated[
    int | None, typer.Option("--image-tokens", min=1, help="Tokens of the largest image; default: the most that the release makes of one.")
]

MaxNew = Annotated[int | None, typer.Option("--max-new", min=1, help="Tokens of an answer at the most; default: 512, within the plan.")]
Temperature = Annotated[float, typer.Option("--temperature", min=0.0, help="Of the distribution that tokens are drawn from; 0 is greedy.")]
TopK = Annotated[int, typer.Option("--top-k", min=0, help="Keep the k best tokens; 0 keeps all.")]
TopP = Annotated[float, typer.Option("--top-p", min=0.0, max=1.0, help="Keep the best tokens that reach this probability.")]
MinP = Annotated[float, typer.Option("--min-p", min=0.0, max=1.0, help="Drop what has less than this share of the best probability.")]
RepetitionPenalty = Annotated[float, typer.Option("--repetition-penalty", min=0.01, help="Above 1 makes seen tokens less likely.")]
PresencePenalty = Annotated[float, typer.Option("--presence-penalty", help="Subtracted once from the logit of a generated token.")]
FrequencyPenalty = Annotated[float, typer.Option("--frequency-penalty", help="Subtracted for each time a token was generated.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of the sampler; default: drawn.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", metavar="TEXT", help="Text that ends the answer; may be given several times.")]
Record = Annotated[
    Path | None, typer.Option("--record", metavar="DIR", help="Leave a replay bundle of every answer; of failures one is left anyway.")
]

REPORTS = Path("reports")

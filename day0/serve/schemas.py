"""Bodies of requests. Unknown fields are accepted; those that would change an answer and are not implemented are refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from day0.serve.errors import invalid

STOPS, STOP_LENGTH = 4, 1000  # stop strings of a request, and characters of one
SHORT = 16  # tokens of a completion when nobody says, as in OpenAI's
Count = Annotated[int, Field(ge=1, le=2**31)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]
StopText = Annotated[str, Field(min_length=1, max_length=STOP_LENGTH)]
Token = Annotated[int, Field(ge=0)]

HARMLESS: dict[str, tuple[Any, ...]] = {  # field that is not implemented → values that ask for nothing
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "suffix": ("",),
    "best_of": (1,),
    "use_beam_search": (False,),
    "prompt_logprobs": (),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "logits_processors": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "documents": (),
    "truncate_prompt_tokens": (),
}


class Body(BaseModel):
    """Base of the bodies."""

    model_config = ConfigDict(extra="allow")


class StreamOptions(Body):
    """What a stream carries beside the answer."""

    include_usage: bool | None = Field(None, description="send one more chunk with the usage before the end")
    continuous_usage_stats: bool | None = Field(None, description="send the usage so far with every chunk")


class Generation(Body):
    """What chats and completions have in common; what is left out is as the release says."""

    model: str | None = Field(None, description="name of the model; the one that is served when left out")
    max_tokens: Annotated[int, Field(ge=0, le=2**31)] | None = Field(None, description="tokens to generate at the most")
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = Field(None, description="0 is greedy")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="probability that the kept tokens reach together")
    top_k: Annotated[int, Field(ge=-1, le=2**31)] | None = Field(None, description="best tokens kept; 0 and -1 keep all")
    min_p: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="least share of the best token's probability")
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = Field(None, description="above 1 makes seen tokens less likely")
    presence_penalty: Penalty | None = Field(None, description="subtracted once from the logit of a generated token")
    frequency_penalty: Penalty | None = Field(None, description="subtracted for each time a token was generated")
    logit_bias: Annotated[dict[str, Number], Field(max_length=1024)] | None = Field(None, description="token id → added to its logit")
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = Field(None, description="same seed, same tokens")
    n: Annotated[int, Field(ge=1, le=128)] | None = Field(None, description="answers to each prompt")
    stop: StopText | Annotated[list[StopText], Field(max_length=STOPS)] | None = Field(None, description="texts that end it")
    stop_token_ids: Annotated[list[Token], Field(fail_fast=True, max_length=1024)] | None = Field(None, description="ids that end it")
    ignore_eos: bool | None = Field(None, description="go on after the model's own end")
    min_tokens: Annotated[int, Field(ge=0, le=2**31)] | None = Field(None, description="tokens before the answer may end")
    stream: bool | None = Field(None, description="send the answer as it is generated")
    stream_options: StreamOptions | None = Field(None, description="only with stream")

    def stops(self) -> tuple[str, ...]:
        """Stop strings as a tuple."""
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def limit(self) -> int | None:
        """Tokens of an answer at the most; None is as many as there is room for."""
        return self.max_tokens

    def require_supported(self) -> None:
        """400 for what would change the answer and is not implemented."""
        for name, value in (self.model_extra or {}).items():
            if name in HARMLESS and value is not None and value not in HARMLESS[name]:
                raise invalid(f"{name} is not supported by this server", name, "unsupported_parameter")
        if self.stream_options is not None and not self.stream:
            raise invalid("stream_options goes with stream: true only", "stream_options")
        limit = self.limit()
        if self.min_tokens and limit is not None and self.min_tokens > limit:
            raise invalid(f"min_tokens is {self.min_tokens}, but no more than {limit} tokens are to be generated", "min_tokens")


class Message(Body):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(description="who speaks")
    content: str | Annotated[list[dict[str, Any]], Field(fail_fast=True)] | None = Field(None, description="text, or parts")


class ChatBody(Generation):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(fail_fast=True, min_length=1)] = Field(description="the conversation")
    max_tokens: Count | None = Field(None, description="tokens to generate at the most")
    max_completion_tokens: Count | None = Field(None, description="the same, and the one that counts")
    logprobs: bool | None = Field(None, description="report the log-probability of each token")
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(None, description="alternatives to report; only with logprobs")
    add_generation_prompt: bool = Field(True, description="end the prompt where the assistant begins")
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="names for the chat template")
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="a name for the chat template"
    )  # fmt: skip

    def limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def require_supported(self) -> None:
        super().require_supported()
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs goes with logprobs: true only", "top_logprobs")


class CompletionBody(Generation):
    """POST /v1/completions."""

    prompt: Any = Field(description="a text, token ids, or a list of either")
    echo: bool | None = Field(None, description="begin the answer with the prompt")
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(None, description="alternatives to report for each token")

    def limit(self) -> int:
        return SHORT if self.max_tokens is None else self.max_tokens

    def require_supported(self) -> None:
        super().require_supported()
        if self.max_tokens == 0 and not self.echo:
            raise invalid("max_tokens is 0, which leaves nothing to answer without echo", "max_tokens")


class TokenizeBody(Body):
    """POST /tokenize."""

    prompt: str | None = Field(None, description="a text")
    messages: Annotated[list[Message], Field(fail_fast=True, min_length=1)] | None = Field(None, description="or a conversation")
    add_special_tokens: bool = Field(True, description="add what the release puts around a text")
    add_generation_prompt: bool = Field(True, description="end a conversation where the assistant begins")


class DetokenizeBody(Body):
    """POST /detokenize."""

    tokens: Annotated[list[Token], Field(fail_fast=True)] = Field(description="token ids")

"""Types under the import path that published environment packages use. Frozen: new code imports from where they live.

The one rule: nothing here is a second kind of anything; names stand for the library's own classes, or are plain dicts
whose keys are spelled out for type checkers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from verifiers import messages
from verifiers.envs.callbacks import OnProgress, OnStart
from verifiers.envs.outputs import GenerateOutputs, Output
from verifiers.errors import Error
from verifiers.messages import (
    AssistantMessage,
    Message,
    Messages,
    Record,
    Response,
    SystemMessage,
    TextMessage,
    Tokens,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from verifiers.models.config import ClientConfig, ClientType, EndpointClientConfig
from verifiers.rollout.timing import RolloutTiming, TimeSpan, TimeSpans
from verifiers.rubrics.rubric import RewardFunc
from verifiers.state import State, Step

Info: TypeAlias = dict[str, Any]
SamplingArgs: TypeAlias = dict[str, Any]
MessageType: TypeAlias = Literal["chat", "completion"]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"] | None
JsonPrimitive: TypeAlias = Literal["string", "number", "integer", "boolean", "array", "object"]
IndividualRewardFunc: TypeAlias = Callable[..., float | Awaitable[float]]
GroupRewardFunc: TypeAlias = Callable[..., list[float] | Awaitable[list[float]]]
DatasetBuilder: TypeAlias = Callable[[], Any]
MessageContent: TypeAlias = str | list[Any]
ChatMessage: TypeAlias = dict[str, Any]
ChatMessages: TypeAlias = list[dict[str, Any]]
StartCallback: TypeAlias = OnStart
ProgressCallback: TypeAlias = OnProgress
LogCallback: TypeAlias = Callable[[str], None]


class _UsageForm(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, messages.Usage)


class Usage(metaclass=_UsageForm):
    """`messages.Usage`, made from the four numbers that servers report; the total is what they add up to."""

    def __new__(
        cls, prompt_tokens: int = 0, reasoning_tokens: int = 0, completion_tokens: int = 0, total_tokens: int = 0
    ) -> Any:
        return messages.Usage(prompt_tokens, completion_tokens, reasoning_tokens=reasoning_tokens)


ResponseMessage = AssistantMessage
ResponseTokens = Tokens
TrajectoryStep = Step
RolloutOutput = Output
CustomBaseModel = Record


class TextContentPart(Record):
    """A piece of text in a message's content."""

    def __init__(self, text: str = "", *, type: str = "text", **extra: Any) -> None:
        super().__init__(type=type, text=text, **extra)


class ImageUrlSource(Record):
    def __init__(self, url: str = "", **extra: Any) -> None:
        super().__init__(url=url, **extra)


class ImageUrlContentPart(Record):
    """An image in a message's content, by address or `data:` address."""

    def __init__(self, image_url: Any = None, *, type: str = "image_url", **extra: Any) -> None:
        super().__init__(type=type, image_url=image_url, **extra)


class InputAudioSource(Record):
    def __init__(self, data: str = "", format: str = "wav", **extra: Any) -> None:
        super().__init__(data=data, format=format, **extra)


class InputAudioContentPart(Record):
    """Sound in a message's content, base64-encoded."""

    def __init__(self, input_audio: Any = None, *, type: str = "input_audio", **extra: Any) -> None:
        super().__init__(type=type, input_audio=input_audio, **extra)


class GenericContentPart(Record):
    def __init__(self, type: str = "", **extra: Any) -> None:
        super().__init__(type=type, **extra)


ContentPart: TypeAlias = TextContentPart | ImageUrlContentPart | InputAudioContentPart | GenericContentPart | Info


class TrajectoryStepTokens(TypedDict):
    prompt_ids: list[int]
    prompt_mask: list[int]
    completion_ids: list[int]
    completion_mask: list[int]
    completion_logprobs: list[float]
    overlong_prompt: bool
    is_truncated: bool
    routed_experts: list[list[list[int]]] | None


class BaseRolloutInput(TypedDict):
    prompt: Any
    example_id: int


class RolloutInput(BaseRolloutInput, total=False):
    answer: Any
    info: Info | str
    task: Any


class RolloutScore(TypedDict):
    reward: float
    metrics: dict[str, float]


class RolloutScores(TypedDict):
    reward: list[float]
    metrics: dict[str, list[float]]


class ProcessedOutputs(TypedDict):
    """Token arrays of a batch, as trainers of the older releases took them."""

    prompt_ids: list[list[int]]
    prompt_mask: list[list[int]]
    completion_ids: list[list[int]]
    completion_mask: list[list[int]]
    completion_logprobs: list[list[float]]
    rewards: list[float]


class TokenUsage(TypedDict):
    input_tokens: float
    output_tokens: float
    final_input_tokens: NotRequired[float]
    final_output_tokens: NotRequired[float]


class ErrorInfo(TypedDict):
    error: str
    error_chain_repr: str
    error_chain_str: str


class VersionInfo(TypedDict):
    vf_version: str
    vf_commit: str | None
    env_version: str | None
    env_commit: str | None


class GenerateMetadata(TypedDict, total=False):
    env_id: str
    env_args: dict[str, Any]
    model: str
    base_url: str
    num_examples: int
    rollouts_per_example: int
    sampling_args: SamplingArgs
    date: str | datetime
    time: float
    time_ms: float
    avg_reward: float | None
    avg_metrics: dict[str, float | None]
    avg_error: float
    pass_at_k: dict[str, float]
    pass_all_k: dict[str, float]
    pass_threshold: float
    usage: TokenUsage | None
    version_info: VersionInfo
    state_columns: list[str]
    path_to_save: Path | None
    tools: Sequence[Tool] | None


class Endpoint(TypedDict):
    """A row of an endpoint file."""

    key: str
    url: str
    model: str
    api_client_type: NotRequired[ClientType]
    extra_headers: NotRequired[dict[str, str]]


Endpoints: TypeAlias = dict[str, list[Endpoint]]

__all__ = [
    "AssistantMessage",
    "BaseRolloutInput",
    "ChatMessage",
    "ChatMessages",
    "ClientConfig",
    "ClientType",
    "ContentPart",
    "CustomBaseModel",
    "DatasetBuilder",
    "Endpoint",
    "EndpointClientConfig",
    "Endpoints",
    "Error",
    "ErrorInfo",
    "FinishReason",
    "GenerateMetadata",
    "GenerateOutputs",
    "GenericContentPart",
    "GroupRewardFunc",
    "ImageUrlContentPart",
    "ImageUrlSource",
    "IndividualRewardFunc",
    "Info",
    "InputAudioContentPart",
    "InputAudioSource",
    "JsonPrimitive",
    "LogCallback",
    "Message",
    "MessageContent",
    "MessageType",
    "Messages",
    "ProcessedOutputs",
    "ProgressCallback",
    "Response",
    "ResponseMessage",
    "ResponseTokens",
    "RewardFunc",
    "RolloutInput",
    "RolloutOutput",
    "RolloutScore",
    "RolloutScores",
    "RolloutTiming",
    "SamplingArgs",
    "StartCallback",
    "State",
    "SystemMessage",
    "TextContentPart",
    "TextMessage",
    "TimeSpan",
    "TimeSpans",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolMessage",
    "TrajectoryStep",
    "TrajectoryStepTokens",
    "Usage",
    "UserMessage",
    "VersionInfo",
]

_SDK_CHAT = ("ChatCompletion", "ChatCompletionMessageParam", "ChatCompletionMessageToolCall", "ChatCompletionToolParam")


def __getattr__(name: str) -> Any:
    """Names of the OpenAI SDK that used to be re-exported here; the SDK is loaded only for those who ask."""
    if name in _SDK_CHAT:
        import openai.types.chat as chat

        return getattr(chat, name)
    if name == "Completion":
        from openai.types import Completion

        return Completion
    if name == "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI
    raise AttributeError(f"module 'verifiers.types' has no attribute {name!r}")

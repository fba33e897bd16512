"""The section `notify:` of the YAML: the receivers of notifications about runs."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, Name, NonNegative, Spec

Event = Literal["success", "not_blessed", "gate_stop", "failure", "skipped"]
EVENTS: tuple[Event, ...] = get_args(Event)
EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Hook(Spec):
    """One receiver: a program (`command`) or an address (`url_env`)."""

    on: tuple[Event, ...] = Field(default=EVENTS, min_length=1)
    """The events to send, in this order: a model was pushed, a model was not blessed, the data gate stopped the data, a
    run failed, there was nothing to train."""
    command: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Program and arguments, started in the YAML's folder without a shell; the payload is on its standard input."""
    url_env: EnvironmentVariable | None = None
    """Environment variable with the address to which the payload is posted. The YAML must not contain the address
    itself, since everyone who has it can post there."""
    token_env: EnvironmentVariable | None = None
    """Environment variable with a token, sent as `Authorization: Bearer`."""
    timeout: Count = 10
    """Time limit of one attempt in seconds, from its first step to its last. After that, a command is killed with the
    processes that it started."""
    retries: NonNegative = 3
    """Number of retries, after 1, 2, 4 ... seconds, if the receiver cannot be reached or answers 429 or 5xx."""

    @model_validator(mode="after")
    def _one_receiver(self) -> "Hook":
        if (self.command is None) == (self.url_env is None):
            raise ValueError("a hook needs command or url_env, and not both.")
        if self.token_env is not None and self.url_env is None:
            raise ValueError("token_env goes with url_env; a command finds it in its environment.")
        return self

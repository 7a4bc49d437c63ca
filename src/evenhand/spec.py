"""RunSpec: everything a run was asked for, checked once, written to run.json."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.errors import InputError

T = TypeVar("T", bound=BaseModel)


class RunSpec(BaseModel):
    """What a run was asked for. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str, Field(min_length=1)]
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("cooccurrence",)
    out: Path
    data: dict[str, str] = {}
    pack: str | None = None
    options: dict[str, dict[str, Any]] = {}
    limit: Annotated[int, Field(ge=1)] | None = None
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    bootstrap: Annotated[int, Field(ge=0)] = 9999
    ray: Annotated[str, Field(min_length=1)] | None = None
    ray_workers: Annotated[int, Field(ge=1)] | None = None
    ray_gpus: Annotated[float, Field(ge=0)] | None = None
    fresh: bool = False
    offline: bool = False
    trust_remote_code: bool = False

    def here(self) -> "RunSpec":
        """The same run without workers elsewhere."""
        return self.model_copy(update={"ray": None, "ray_workers": None, "ray_gpus": None})


def slug(model: str) -> str:
    """A folder name for a model reference; for something on this machine, its own name."""
    path = Path(model.rpartition(":")[2])
    if path.exists():
        model = path.resolve().name.removesuffix(".json")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", model.rstrip("/").removeprefix("./")).strip("-.") or "model"


def asked(
    model: str,
    tasks: Sequence[str] | str | None,
    *,
    out: str | Path | None,
    data: Mapping[str, str | Path] | None,
    pack: str | Path | None,
    options: Mapping[str, Mapping[str, Any]] | None,
    **settings: Any,
) -> RunSpec:
    """The spec of a run as a caller gives it; InputError for what will not do."""
    names = [tasks] if isinstance(tasks, str) else tasks
    values = {
        "model": model,
        **({} if names is None else {"tasks": list(names)}),
        "out": Path(out) if out is not None else Path("runs") / slug(model),
        "data": {name: str(path) for name, path in (data or {}).items()},
        "pack": str(pack) if pack is not None else None,
        "options": {name: dict(value) for name, value in (options or {}).items()},
        **settings,
    }
    return checked(RunSpec, values, where="--")


def checked(model: type[T], values: dict[str, Any], *, where: str) -> T:
    """`values` as a `model`, or an InputError that names the first field at fault.

    Args:
        model: the pydantic model.
        values: its fields.
        where: what stands before a field's name in the message, such as "--option cooccurrence.".
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:1])
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(model.model_fields)) or "none"
            raise InputError(f"{where}{name}: no such option; there is: {known}") from None
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] == "string_pattern_mismatch":
            reason = "it should be auto, cpu, mps, cuda or cuda:N"
        reason = reason.replace("Input should be", "it should be")
        if not name:
            raise InputError(f"{where.rstrip('.')}: {reason}") from None
        raise InputError(f"{where}{name}: {first.get('input')!r} will not do: {reason}") from None

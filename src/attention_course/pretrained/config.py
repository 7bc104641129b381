"""Reading the config.json of a pretrained model: every value is checked."""

import math
from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]


def whole(config: Config, name: str, default: int | None = None) -> int:
    """Return a whole number, such as a size.

    Args:
        config: the contents of config.json.
        name: name of the number.
        default: the value if the name is missing or null; None: the name is required.

    Raises:
        ValueError: the name is missing, or its value is not a whole number of at least
            1.
    """
    value = config.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"{name} in config.json is a whole number from 1 on, got {value!r}"
        )
    return value


def positive(config: Config, name: str, default: float) -> float:
    """Return a number above 0.

    Args:
        config: the contents of config.json.
        name: name of the number.
        default: the value if the name is missing or null.

    Raises:
        ValueError: the value is not a number above 0.
    """
    value = config.get(name)
    value = default if value is None else value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise ValueError(f"{name} in config.json is a number above 0, got {value!r}")
    return float(value)


def flag(config: Config, name: str, default: bool) -> bool:
    """Return a value that is true or false.

    Raises:
        ValueError: the value is neither.
    """
    value = config.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{name} in config.json is true or false, got {value!r}")
    return value


def only(config: Config, name: str, *known: Any) -> None:
    """Refuse a model that computes something other than ours.

    Args:
        config: the contents of config.json.
        name: name of a setting.
        known: the values that it may have; the first is the value if the name is
            missing.

    Raises:
        ValueError: the setting has another value.
    """
    value = config.get(name, known[0])
    if value not in known:
        raise ValueError(
            f"{name} in config.json is {value!r}; known here is {known[0]!r} alone"
        )


def rotary_base(config: Config) -> float:
    """Return the base of rotary positions: `rope_parameters`, or the older names.

    Raises:
        ValueError: the positions are of another type than "default", or the base is not
            a number above 0.
    """
    said = config.get("rope_parameters")
    if said is None:
        said = {"rope_theta": config.get("rope_theta")}
        said |= _mapping(config.get("rope_scaling"), "rope_scaling")
    said = _mapping(said, "rope_parameters")
    kind = said.get("rope_type", said.get("type", "default"))
    if kind != "default":
        raise ValueError(
            f"rotary positions in config.json are of type {kind!r}; known here is"
            " 'default' alone"
        )
    only(said, "partial_rotary_factor", 1.0, None)
    return positive(said, "rope_theta", 10_000.0)


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} in config.json has names, got {value!r}")
    return value

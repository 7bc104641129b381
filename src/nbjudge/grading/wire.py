"""The wire between judge and sandbox: frames of JSON and tensors' bytes, all checked.

Nothing in a frame can run, unlike in a pickle; safetensors holds only tensors, no
replies, and reads them from whole files.

A frame is two lengths, a JSON header and a body. A tensor appears in the header as
{"tensor": [dtype, shape, device]} and in the body as its bytes, in order. Everything is
checked before it is used, and its size is checked before memory is allocated: the other
end may send anything.
"""

import json
import math
import socket
import struct
import time
import types
import typing
from typing import Any, NamedTuple

import torch
from torch import Tensor

HEADER_BYTES = 1 << 20
BODY_BYTES = 16 << 20
# The most entries of one tensor, where an axis of length 0 counts as 1: a tensor with
# such an axis has no bytes, but can still be a long list.
ENTRIES = 1 << 21
LENGTHS = struct.Struct("!II")
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class WireError(Exception):
    """What came is not a frame, or nothing came in time; the message is for people."""

    ended = False


class Gone(WireError):
    """The other end no longer exists."""

    ended = True


class Frame(NamedTuple):
    """What is sent: a word for its kind, and plain data that may contain tensors."""

    kind: str
    data: Any


def pack(frame: Frame) -> bytes:
    """Encode a frame as bytes.

    Args:
        frame: its data may be None, bool, int, float, str, dtype, Tensor, and tuples,
            lists and dicts of these.

    Raises:
        WireError: it contains something else, or it is too large.
    """
    bodies: list[bytes] = []
    header = json.dumps([frame.kind, _plain(frame.data, bodies)]).encode()
    body = b"".join(bodies)
    if len(header) > HEADER_BYTES or len(body) > BODY_BYTES:
        raise WireError(
            f"{len(header) + len(body)} bytes are more than the {BODY_BYTES} that may"
            " be sent"
        )
    return LENGTHS.pack(len(header), len(body)) + header + body


def send(sock: socket.socket, frame: Frame, deadline: float) -> None:
    """Send a frame.

    Args:
        sock: a stream socket.
        frame: see `pack`.
        deadline: on time.monotonic()'s clock: the other end may never read.

    Raises:
        WireError: see `pack`; or it was not accepted in time.
    """
    try:
        sock.settimeout(max(deadline - time.monotonic(), 1e-3))
        sock.sendall(pack(frame))
    except OSError as error:
        raise _failure(error) from error


def receive(sock: socket.socket, deadline: float) -> Frame:
    """Wait for a frame and check it.

    Args:
        sock: a stream socket.
        deadline: on time.monotonic()'s clock, for the whole frame: the other end may
            send it byte by byte.

    Returns:
        The frame, with tuples and lists as they were sent.

    Raises:
        WireError: nothing came in time, the other end is gone, or what came is not a
            frame.
    """
    header_bytes, body_bytes = LENGTHS.unpack(_exactly(sock, LENGTHS.size, deadline))
    if header_bytes > HEADER_BYTES or body_bytes > BODY_BYTES:
        raise WireError(f"it announced {header_bytes + body_bytes} bytes, too many")
    both = _exactly(sock, header_bytes + body_bytes, deadline)
    header, body = both[:header_bytes], both[header_bytes:]
    try:
        kind, plain = json.loads(header)
        cursor = _Cursor(body)
        data = _rich(plain, cursor)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RuntimeError,
    ) as error:
        raise WireError("it sent something that is no answer") from error
    if not isinstance(kind, str) or cursor.at != len(body):
        raise WireError("it sent something that is no answer")
    return Frame(kind, data)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value from the wire has an annotated type.

    The types are tuples, dicts, unions and plain classes.
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return isinstance(value, tuple) and all(
                fits(item, parts[0]) for item in value
            )
        return (
            isinstance(value, tuple)
            and len(value) == len(parts)
            and all(map(fits, value, parts))
        )
    if origin is not None:
        return isinstance(value, dict) and all(
            fits(item, parts[1]) for item in value.values()
        )
    return value is None if hint in (None, type(None)) else type(value) is hint


class _Cursor:
    """The position in the body at which the next tensor begins."""

    def __init__(self, body: bytearray):
        self.body, self.at = body, 0

    def take(self, count: int) -> memoryview:
        self.at += count
        if self.at > len(self.body):
            raise ValueError("the body is too short")
        return memoryview(self.body)[self.at - count : self.at]


def _plain(value: Any, bodies: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        value = value.detach().as_subclass(Tensor)
        if value.dtype not in NAMES or value.layout != torch.strided:
            raise WireError(
                f"a tensor of {value.dtype}, {value.layout} cannot be compared"
            )
        meta = value.is_meta
        if not meta:
            # A single number may have any stride and still count as contiguous.
            dense = value.cpu().clone(memory_format=torch.contiguous_format)
            bodies.append(dense.reshape(-1).view(torch.uint8).numpy().tobytes())
        return {
            "tensor": [
                NAMES[value.dtype],
                list(value.shape),
                "meta" if meta else value.device.type,
            ]
        }
    if isinstance(value, torch.dtype):
        return {"dtype": NAMES[value]}
    if isinstance(value, tuple):
        return [_plain(item, bodies) for item in value]
    if isinstance(value, list):
        return {"list": [_plain(item, bodies) for item in value]}
    if isinstance(value, dict):
        return {"dict": {str(key): _plain(item, bodies) for key, item in value.items()}}
    raise WireError(f"{type(value).__name__} is no plain data")


def _rich(value: Any, cursor: _Cursor) -> Any:
    if isinstance(value, list):
        return tuple(_rich(item, cursor) for item in value)
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "dict":
        return {key: _rich(item, cursor) for key, item in content.items()}
    if tag == "list":
        return [_rich(item, cursor) for item in content]
    if tag == "dtype":
        return DTYPES[content]
    if tag != "tensor":
        raise ValueError(tag)
    name, shape, device = content
    if len(shape) > 16 or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(shape)
    if math.prod(max(size, 1) for size in shape) > ENTRIES:
        raise ValueError(f"more than {ENTRIES} entries")
    if device == "meta":
        return torch.empty(shape, dtype=DTYPES[name], device="meta")
    raw = cursor.take(math.prod(shape) * DTYPES[name].itemsize)
    if not raw:
        return torch.empty(shape, dtype=DTYPES[name])
    if DTYPES[name] == torch.bool:  # bytes other than 0 and 1 are not bools
        return (torch.frombuffer(raw, dtype=torch.uint8) != 0).view(shape)
    return torch.frombuffer(raw, dtype=DTYPES[name]).clone().view(shape)


def _exactly(sock: socket.socket, count: int, deadline: float) -> bytearray:
    buffer, done = bytearray(count), 0
    while done < count:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise WireError("no answer in time")
        try:
            sock.settimeout(remaining)
            got = sock.recv_into(memoryview(buffer)[done:])
        except OSError as error:
            raise _failure(error) from error
        if not got:
            raise Gone("the process ended")
        done += got
    return buffer


def _failure(error: OSError) -> WireError:
    return (
        WireError("no answer in time")
        if isinstance(error, TimeoutError)
        else Gone("the process ended")
    )

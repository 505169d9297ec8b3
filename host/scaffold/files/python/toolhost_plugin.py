"""Serves toolhost plugins written in Python: protocol version 2, over gRPC.

This is the package toolhost_sdk, and also a single file (toolhost_plugin.py) that can be copied beside a plugin. It
needs Python 3.9 and the package grpcio. The messages of the protocol are encoded here, so no compiler for protobuf is
needed. Files that a tool reads or changes are reported by Result(effects=...).
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import fcntl
import hashlib
import inspect
import json
import logging
import os
import queue
import shutil
import struct
import sys
import tempfile
import threading
import time
import traceback
import typing
from concurrent import futures
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

__all__ = ["Call", "ConfigError", "Plugin", "Result", "Store", "Tool", "ToolError", "log", "read_effect", "schema_of"]

COOKIE = "6b1f4f4c-toolhost-plugin"
MAX_MESSAGE = 64 << 20
LARGE, PART = 1 << 20, 256 << 10  # a larger result is announced to the host, and sent in parts
CANCEL_GRACE = 2.0  # seconds that a canceled tool has before it is answered for

KINDS = ("", "not_found", "invalid_arguments", "permission_denied", "security", "timeout", "canceled",
         "unavailable", "conflict", "execution_failed", "internal")
OUTCOMES = ("declined", "accepted", "declined", "unavailable", "timeout")

# The messages of plugin.proto: number -> (name, type). A type in brackets is repeated, a
# dictionary is a message. What is not here is ignored when it comes.
ROOT = {1: ("path", "string"), 2: ("writable", "bool")}
TRAITS = {1: ("read_only", "bool"), 2: ("concurrency_safe", "bool"), 3: ("dangerous", "bool"),
          4: ("auto_execute", "bool"), 5: ("disabled", "bool"), 6: ("idempotent", "bool"), 7: ("cacheable", "bool")}
PROGRAM_OPTION = {1: ("argument", "string"), 2: ("value", "bool"), 3: ("suffix", "string"), 4: ("optional", "bool")}
PROGRAM = {1: ("operands", "int"), 2: ("first", "string"), 3: ("options", [{1: ("key", "string"), 2: ("value", PROGRAM_OPTION)}]),
           4: ("number", "string"), 5: ("otherwise", "string"), 6: ("special", "string"), 7: ("others", ["string"]),
           8: ("operand", "string")}
TOOL = {1: ("name", "string"), 2: ("description", "string"), 3: ("input_schema", "bytes"), 4: ("output_schema", "bytes"),
        5: ("traits", TRAITS), 6: ("category", "string"), 7: ("version", "string"), 8: ("examples", ["string"]),
        9: ("stdin_parameter", "string"), 10: ("default_timeout_ms", "int"), 11: ("title", "string"), 13: ("deprecated", "string"),
        15: ("varying", ["string"]), 16: ("unordered", ["string"]), 17: ("keywords", ["string"]),
        18: ("role", "string"), 19: ("program", PROGRAM)}
NEEDS = {1: ("read", "int"), 2: ("write", "int"), 3: ("exec", "int"), 4: ("network", "int"),
         5: ("secrets", [{1: ("name", "string"), 2: ("need", "int")}])}
COMMANDS = {1: ("dir", "string"), 2: ("address", "string"), 3: ("token", "string")}
DESCRIBE = {1: ("name", "string"), 2: ("version", "string"), 3: ("min_host_version", "string"),
            4: ("config_schema", "bytes"), 5: ("tools", [TOOL]), 6: ("capabilities", ["string"]),
            7: ("needs", NEEDS), 9: ("keeps", [{1: ("kind", "string"), 2: ("files", ["string"]), 3: ("age_attribute", "string")}])}
DESCRIBE_REQUEST = {1: ("host_version", "string"), 2: ("capabilities", ["string"])}
CONFIGURE_REQUEST = {1: ("config", "bytes"), 2: ("roots", [ROOT]), 3: ("state_dir", "string"), 4: ("host_version", "string")}
DIAGNOSTIC = {1: ("severity", "int"), 2: ("summary", "string"), 3: ("detail", "string"), 4: ("path", ["string"])}
CONFIGURE_RESPONSE = {1: ("diagnostics", [DIAGNOSTIC])}
START = {1: ("call_id", "string"), 2: ("tool", "string"), 3: ("arguments", "bytes"), 4: ("session_id", "string"),
         5: ("message_id", "string"), 6: ("cwd", "string"), 7: ("roots", [ROOT]), 8: ("timeout_ms", "int"), 9: ("session_state", "bytes"),
         11: ("commands", COMMANDS)}
ANSWER = {1: ("ask_id", "int"), 2: ("outcome", "int"), 3: ("values", ["string"]), 4: ("message", "string"), 5: ("content", "bytes")}
FILE_STATE = {1: ("path", "string"), 2: ("mtime_ns", "int"), 3: ("size", "int"), 4: ("hash", "bytes"), 5: ("partial", "bool")}
CALL_REQUEST = {1: ("start", START), 2: ("answer", ANSWER), 3: ("cancel", {1: ("reason", "int")}),
                4: ("file_states", {1: ("query_id", "int"), 2: ("states", [FILE_STATE])})}
PERMISSION = {1: ("kind", "string"), 2: ("title", "string"), 3: ("patterns", ["string"]), 4: ("metadata", "bytes")}
QUESTION = {1: ("text", "string"), 2: ("options", ["string"]), 3: ("multiple", "bool"), 4: ("free_text", "bool"),
            5: ("defaults", ["string"]), 6: ("optional", "bool")}
ERROR = {1: ("kind", "int"), 2: ("code", "int"), 3: ("message", "string"), 4: ("retry_after_ms", "int"), 5: ("data", "bytes")}
ATTACHMENT = {1: ("type", "int"), 2: ("path", "string"), 3: ("media_type", "string"), 4: ("content", "bytes")}
EFFECT = {1: ("operation", "int"), 2: ("file", FILE_STATE), 3: ("hash_before", "bytes")}
RESULT = {1: ("output", "string"), 2: ("error", ERROR), 3: ("title", "string"), 4: ("metadata", "bytes"), 5: ("data", "bytes"),
          6: ("attachments", [ATTACHMENT]), 7: ("effects", [EFFECT]), 8: ("session_state", "optional bytes"), 9: ("cwd", "string")}
CALL_RESPONSE = {1: ("progress", {1: ("title", "string"), 2: ("metadata", "bytes")}),
                 2: ("output", {1: ("stream", "int"), 2: ("chunk", "bytes")}),
                 3: ("ask", {1: ("id", "int"), 2: ("permission", PERMISSION), 3: ("question", QUESTION),
                           5: ("tool_call", {1: ("tool", "string"), 2: ("arguments", "bytes")}), 6: ("announce", {1: ("bytes", "int")})}),
                 4: ("file_state_query", {1: ("id", "int"), 2: ("paths", ["string"])}), 5: ("result", RESULT), 7: ("result_part", "bytes")}
CALLS_REQUEST = {1: ("call", "int"), 2: ("message", CALL_REQUEST)}
CALLS_RESPONSE = {1: ("call", "int"), 2: ("message", CALL_RESPONSE)}
HEALTH_REQUEST = {1: ("tool", "string")}
HEALTH_RESPONSE = {1: ("status", "int"), 2: ("message", "string"), 3: ("details", "bytes")}
DRAIN_REQUEST = {1: ("grace_ms", "int")}
DRAIN_RESPONSE = {1: ("canceled", "int")}
HOOK_REQUEST = {1: ("event", "string"), 2: ("hook", "string"), 3: ("tool", "string"), 4: ("definition", TOOL), 5: ("call_id", "string"),
                6: ("message_id", "string"), 7: ("session_id", "string"), 8: ("cwd", "string"), 9: ("workspace", "string"),
                10: ("arguments", "bytes"), 11: ("result", RESULT)}
HOOK_RESPONSE = {1: ("decision", "int"), 2: ("reason", "string"), 3: ("arguments", "bytes"), 4: ("result", RESULT)}

log = logging.getLogger("toolhost")
"""The plugin's log. Fields are given as extra={"fields": {...}}; Call.log adds those of the call."""


class _Formatter(logging.Formatter):
    """Formats records as hosts parse them."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {"@level": record.levelname.lower().replace("warning", "warn").replace("critical", "error"), "@message": record.getMessage()}
        entry.update({k: v for k, v in getattr(record, "fields", {}).items() if not k.startswith("@")})
        if record.exc_info:
            entry["stack"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _read_varint(data, at):
    n = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("the message is cut off")
        b = data[at]
        at += 1
        n |= (b & 127) << shift
        if b < 128:
            return n, at
        shift += 7


def encode(fields, message):
    """Encodes a dictionary as a protobuf message."""
    out = bytearray()
    for number, (name, kind) in fields.items():
        value = message.get(name)
        if value is None:
            continue
        for v in value if isinstance(kind, list) else [value]:
            one = kind[0] if isinstance(kind, list) else kind
            if one in ("int", "bool"):
                if v or isinstance(kind, list):
                    out += _varint(number << 3) + _varint(int(v))
                continue
            if isinstance(one, dict):
                v = encode(one, v)
            elif isinstance(v, str):
                v = v.encode("utf-8", "replace")
            if v or isinstance(one, dict) or isinstance(kind, list) or one.startswith("optional"):
                out += _varint(number << 3 | 2) + _varint(len(v)) + v
    return bytes(out)


def decode(fields, data):
    """Decodes a protobuf message into a dictionary; fields that are not known are ignored."""
    message = {}
    for name, kind in fields.values():
        if isinstance(kind, list):
            message[name] = []
        elif not isinstance(kind, dict):
            message[name] = {"string": "", "int": 0, "bool": False}.get(kind, b"")
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        elif wire == 2:
            size, at = _read_varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("the message is cut off")
        else:
            raise ValueError("the wire type %d is not known" % wire)
        name, kind = fields.get(tag >> 3, (None, None))
        one = kind[0] if isinstance(kind, list) else kind
        if name is None or (one in ("int", "bool")) != (wire == 0):
            continue
        if isinstance(one, dict):
            value = decode(one, value)
        elif one == "int":
            value = struct.unpack("<q", struct.pack("<Q", value))[0]
        elif one == "bool":
            value = bool(value)
        elif one == "string":
            value = value.decode("utf-8", "replace")
        if isinstance(kind, list):
            message[name].append(value)
        else:
            message[name] = value
    return message


class ToolError(Exception):
    """A failed call. The message names the problem and the remedy.

    After an error of the kind "unavailable" with retry_after (seconds), the host repeats read-only and idempotent tools,
    never sooner. Without it, the host does not repeat the call."""

    def __init__(self, kind: str, message: str, code: int = 0, retry_after: float = 0, data: Any = None):
        super().__init__(message)
        if kind not in KINDS[1:]:
            raise ValueError("%r is not one of %s" % (kind, ", ".join(KINDS[1:])))
        self.kind, self.code, self.retry_after, self.data = kind, code, retry_after, data

    def _message(self) -> dict:
        return {"kind": KINDS.index(self.kind), "code": self.code, "message": str(self), "retry_after_ms": int(self.retry_after * 1000),
                "data": None if self.data is None else json.dumps(self.data).encode()}


class ConfigError(Exception):
    """A refused configuration. The path leads to the value: names and indices."""

    def __init__(self, summary: str, path: Iterable[Any] = (), detail: str = ""):
        super().__init__(summary)
        self.path, self.detail = [str(p) for p in path], detail


class Result:
    """The result of a call that is more than a text. A dictionary or a dataclass as data has the output schema of the
    tool. session_state is bytes, or any value that JSON can represent."""

    def __init__(self, output: str = "", data: Any = None, title: str = "", metadata: Optional[Mapping[str, Any]] = None,
                 attachments: Iterable[dict] = (), effects: Iterable[dict] = (), session_state: Any = None, cwd: str = ""):
        if session_state is not None and not isinstance(session_state, bytes):
            session_state = json.dumps(session_state).encode()
        self.message = {
            "output": output, "title": title, "cwd": cwd, "session_state": session_state,
            "data": None if data is None else json.dumps(_plain(data)).encode(),
            "metadata": None if metadata is None else json.dumps(metadata).encode(),
            "attachments": list(attachments), "effects": list(effects),
        }


def _plain(data: Any) -> Any:
    return dataclasses.asdict(data) if dataclasses.is_dataclass(data) and not isinstance(data, type) else data


class Store:
    """Values that survive restarts, also of a killed plugin. All processes of the plugin share them. Each value is a
    file that is replaced by renaming; the SDKs for Go and Node use the same files."""

    MAX_VALUE, MAX_BYTES, MAX_KEYS = 1 << 20, 64 << 20, 4096

    def __init__(self, directory: str):
        self._dir = directory

    def _path(self, key: str) -> str:
        return os.path.join(self._dir, hashlib.sha256(key.encode()).hexdigest()[:32] + ".json")

    def get(self, key: str, default: Any = None) -> Any:
        try:
            with open(self._path(key), encoding="utf-8") as f:
                return json.load(f)["value"]
        except FileNotFoundError:
            return default

    def keys(self, prefix: str = "") -> list[str]:
        found = []
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._dir):
                if name.endswith(".json"):
                    with contextlib.suppress(FileNotFoundError), open(os.path.join(self._dir, name), encoding="utf-8") as f:
                        found.append(json.load(f)["key"])
        return sorted(k for k in found if k.startswith(prefix))

    def set(self, key: str, value: Any) -> None:
        self.update(key, lambda _: value)

    def delete(self, key: str) -> None:
        self.update(key, lambda _: None)

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Replaces a value by change(old), which is None if there is none, and returns the new one. If that is None, the
        value is removed. No other process changes the store meanwhile."""
        if not 1 <= len(key.encode()) <= 1024:
            raise ValueError("a key of the store must have 1 to 1024 bytes")
        os.makedirs(self._dir, 0o700, exist_ok=True)
        with open(os.path.join(self._dir, "lock"), "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            value = change(self.get(key))
            path = self._path(key)
            if value is None:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
                return None
            raw = json.dumps({"key": key, "value": value}, ensure_ascii=False).encode()
            self._fits(path, len(raw), len(json.dumps(value)))
            fd, new = tempfile.mkstemp(prefix="new-", dir=self._dir)
            with os.fdopen(fd, "wb") as f:
                f.write(raw)
                f.flush()
                os.fsync(fd)
            os.replace(new, path)
            directory = os.open(self._dir, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
            return value

    def _fits(self, path: str, size: int, value: int) -> None:
        total, keys = size, 1
        for name in os.listdir(self._dir):
            other = os.path.join(self._dir, name)
            if name.startswith("new-"):  # left by a killed process, because the store is locked
                os.remove(other)
            elif name.endswith(".json") and other != path:
                total, keys = total + os.path.getsize(other), keys + 1
        if value > self.MAX_VALUE or total > self.MAX_BYTES or keys > self.MAX_KEYS:
            raise ToolError("execution_failed", "The plugin's store is full: %d values with %d bytes. Delete some." % (keys, total))


def read_effect(path, content, partial=False):
    """Says that a file was read: its absolute path, and its whole content."""
    st = os.stat(path)
    return {"operation": 1, "file": {"path": path, "mtime_ns": st.st_mtime_ns, "size": st.st_size,
                                     "hash": hashlib.sha256(content).digest(), "partial": partial}}


class Call:
    """One call as its tool sees it. Its methods may be used by several threads."""

    def __init__(self, start, send=lambda event: None):
        self.id, self.tool, self.session_id = start.get("call_id", ""), start.get("tool", ""), start.get("session_id", "")
        self.cwd, self.roots = start.get("cwd", ""), start.get("roots", [])
        self.session_state: bytes = start.get("session_state", b"")
        self.commands: Optional[dict] = start.get("commands")
        self.log = logging.LoggerAdapter(log, {"fields": {"tool": self.tool, "call": self.id, "session": self.session_id}})
        self._state_dir = ""
        self.timeout = start.get("timeout_ms", 0) / 1000  # seconds; 0: no limit
        self.canceled = threading.Event()
        self.reason = "canceled"
        self.on_cancel = lambda: None
        self.ended = False  # whether the host has the result
        self._send, self._lock, self._asks, self._waiting = send, threading.Lock(), 0, {}

    def cancel(self, reason="canceled"):
        with self._lock:
            if self.canceled.is_set():
                return
            self.reason = reason
            self.canceled.set()
            waiting, self._waiting = self._waiting, {}
        for q in waiting.values():
            q.put(None)
        self.on_cancel()

    def check(self):
        """Raises when the call was canceled or its time is over. Call it now and then."""
        if self.canceled.is_set():
            raise ToolError(self.reason, "The call was ended before it was done.")

    def sleep(self, seconds):
        """Sleeps, and raises when the call is canceled meanwhile."""
        self.canceled.wait(seconds)
        self.check()

    def progress(self, title, metadata=None):
        self._send({"progress": {"title": title, "metadata": None if metadata is None else json.dumps(metadata).encode()}})

    def progress_of(self, title: str, done: float, total: float = 0) -> None:
        """Reports how much of the work is done: done of total."""
        self.progress(title, {"progress": done, "total": total} if total else {"progress": done})

    def state(self, default: Any = None) -> Any:
        """Returns the session's state that an earlier Result(session_state=...) stored as JSON."""
        return json.loads(self.session_state) if self.session_state else default

    def store(self) -> Store:
        """Returns the plugin's persistent values."""
        if not self._state_dir:
            raise ToolError("unavailable", "The plugin has no state directory. In a test, call plugin.configure first.")
        return Store(os.path.join(self._state_dir, "store"))

    def call_tool(self, name: str, **arguments: Any) -> dict:
        """Calls another tool of the host and returns its result: output, data and metadata. The operator must permit it
        (calls in the plugin's block). It raises ToolError if the tool fails."""
        a = self._ask({"tool_call": {"tool": name, "arguments": json.dumps(arguments).encode()}})
        if a["outcome"] != 1:
            raise ToolError("permission_denied", "The host does not call %s for this plugin: %s" % (name, a["message"] or "declined"))
        result = json.loads(a["content"])
        if result.get("error"):
            e = result["error"]
            raise ToolError(e["kind"], e["message"], e.get("code", 0), e.get("retry_after", 0), e.get("data"))
        return result

    def output(self, chunk, stderr=False):
        """Passes on a piece of what the tool prints. The result must be complete without it."""
        if isinstance(chunk, str):
            chunk = chunk.encode()
        for i in range(0, len(chunk), 256 << 10):
            self._send({"output": {"stream": 2 if stderr else 1, "chunk": chunk[i:i + (256 << 10)]}})

    def question(self, text, options=(), multiple=False):
        """Asks the user: (outcome, values). Without options the answer is free text."""
        a = self._ask({"question": {"text": text, "options": list(options), "multiple": multiple, "free_text": not options}})
        return OUTCOMES[a["outcome"]] if a["outcome"] < len(OUTCOMES) else "declined", a["values"]

    def permit(self, kind, title, patterns=()):
        """Asks for a permission, and raises when it is not given."""
        a = self._ask({"permission": {"kind": kind, "title": title, "patterns": list(patterns)}})
        if a["outcome"] != 1:
            raise ToolError("permission_denied", "Permission %s was not given for %r: %s" % (kind, title, a["message"] or "declined"))

    def _ask(self, ask):
        answer = queue.Queue()
        with self._lock:
            self.check()
            self._asks += 1
            ask["id"] = self._asks
            self._waiting[ask["id"]] = answer
        self._send({"ask": ask})
        got = answer.get()
        if got is None:
            self.check()
        return got

    def _hear(self, message):
        """Takes a message of the host about this call."""
        if "cancel" in message:
            self.cancel("timeout" if message["cancel"]["reason"] == 2 else "canceled")
        elif "answer" in message:
            self._answered(message["answer"])

    def _answered(self, answer):
        with self._lock:
            waiting = self._waiting.pop(answer["ask_id"], None)
        if waiting:
            waiting.put(answer)


class Tool(NamedTuple):
    """A tool of a plugin, as Plugin.tool and make_tool create it."""

    definition: dict
    schema: dict
    run: Callable[..., Any]



JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def _schema_of(hint):
    if typing.get_origin(hint) is typing.Annotated:
        schema = _schema_of(hint.__origin__)
        for extra in hint.__metadata__:
            if isinstance(extra, str):
                schema["description"] = extra
            else:
                schema.update(extra)  # further keywords
        return schema
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"type": JSON_TYPES[type(args[0])], "enum": list(args)}
    if origin is typing.Union:  # Optional
        return _schema_of(next(a for a in args if a is not type(None)))
    if origin is list:
        return {"type": "array", "items": _schema_of(args[0])}
    if origin is dict:
        return {"type": "object"}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = dataclasses.fields(hint)
        return {"type": "object", "properties": {f.name: _schema_of(hints[f.name]) for f in fields},
                "required": [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]}
    if hint not in JSON_TYPES:
        raise TypeError("%r has no place in a schema; use str, int, float, bool, list[…], dict, Literal, Optional, Annotated or a dataclass" % (hint,))
    return {"type": JSON_TYPES[hint]}


def schema_of(function, skip=1):
    """The JSON Schema of a function's parameters, without the first ones."""
    hints = typing.get_type_hints(function, include_extras=True)
    properties, required = {}, []
    for p in list(inspect.signature(function).parameters.values())[skip:]:
        properties[p.name] = _schema_of(hints.get(p.name, str))
        if p.default is inspect.Parameter.empty:
            required.append(p.name)
        elif p.default is not None:
            properties[p.name]["default"] = p.default
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _is(value, typ):
    if typ == "integer":
        return isinstance(value, int) and not isinstance(value, bool) or isinstance(value, float) and value.is_integer()
    if typ == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return typ is None or isinstance(value, {"string": str, "boolean": bool, "object": dict, "array": list}[typ])


def make_tool(function: Callable, name: str, description: str, *, read_only: bool = False, concurrency_safe: bool = False,
              dangerous: bool = False, idempotent: bool = False, cacheable: bool = False, disabled: bool = False,
              examples: Iterable[str] = (), output_schema: Optional[dict] = None, stdin_parameter: str = "",
              default_timeout_ms: int = 0, title: str = "", deprecated: str = "", input_schema: Optional[dict] = None,
              varying: Iterable[str] = (), unordered: Iterable[str] = (), keywords: Iterable[str] = (),
              role: str = "", program: Optional[Mapping[str, Any]] = None) -> Tool:
    """Returns a tool. The function's first parameter is the Call; the others, with their type hints, are the tool's
    parameters. It returns a text, a Result, or a dataclass, whose output schema is inferred. It may run several times at
    once. varying and unordered are JSON pointers: parts of the data that differ between equal calls, and arrays whose order
    does not matter. keywords are words by which a search finds the tool, in addition to its name and description. role is the
    purpose of a tool that the host uses itself, such as "shell" or "undo". program describes the program of the shell that
    has the same name as the tool, with the fields of the message Program in docs/protocol.md."""
    schema = input_schema or schema_of(function)
    returned = typing.get_type_hints(function).get("return")
    if output_schema is None and dataclasses.is_dataclass(returned):
        output_schema = _schema_of(returned)
    return Tool({
        "name": name, "description": description, "input_schema": json.dumps(schema).encode(), "category": "custom",
        "output_schema": None if output_schema is None else json.dumps(output_schema).encode(),
        "traits": {"read_only": read_only, "concurrency_safe": concurrency_safe, "dangerous": dangerous, "idempotent": idempotent,
                   "cacheable": cacheable, "disabled": disabled},
        "examples": list(examples), "stdin_parameter": stdin_parameter, "default_timeout_ms": default_timeout_ms,
        "title": title, "deprecated": deprecated, "varying": list(varying), "unordered": list(unordered),
        "keywords": list(keywords), "role": role, "program": None if program is None else {
            **program, "options": [{"key": k, "value": v} for k, v in sorted(program.get("options", {}).items())]},
    }, schema, function)


def _result_of(value: Any) -> Result:
    if isinstance(value, Result):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        text = str(value) if type(value).__str__ is not object.__str__ else json.dumps(_plain(value))
        return Result(text, value)
    return Result("" if value is None else str(value))


_NEED = {"": 0, None: 0, "optional": 1, "required": 2}


class Plugin:
    """One plugin: its name, its version as major.minor.patch, and its tools."""

    def __init__(self, name: str, version: str, needs: Optional[Mapping[str, Any]] = None, commands: bool = False,
                 keeps: Iterable[dict] = ()):
        """needs maps read, write, exec and network to "required" or "optional", and secrets to a dictionary of such. An
        empty one means that the plugin needs nothing; None declares nothing. With commands, the tools start commands that
        may call tools; see Call.commands. keeps lists files that the plugin keeps in its state directory for a time, as
        dictionaries with kind ("output" or "undo"), files and age_attribute."""
        self.needs, self.commands, self.keeps = needs, commands, list(keeps)
        self._hook: Optional[Callable[[dict], Any]] = None
        self._discover: Optional[Callable[[], Sequence[Tool]]] = None
        self._configured, self._state_dir = False, ""
        self.host_capabilities: list[str] = []
        self.name, self.version = name, version
        self._tools, self._config, self._config_schema = {}, None, None
        self._health = lambda tool: (True, "")
        self._lock, self._calls, self._draining = threading.Condition(), set(), False

    def tool(self, name: str, description: str, **options: Any) -> Callable[[Callable], Callable]:
        """Makes a function a tool; see make_tool."""
        def add(function: Callable) -> Callable:
            self._tools[name] = make_tool(function, name, description, **options)
            return function
        return add

    def hook(self, function: Callable[[dict], Any]) -> Callable:
        """Makes a function decide on events of calls. It gets the request and returns None, or a dictionary with
        decision ("deny" or "ask"), reason, arguments and result (a Result)."""
        self._hook = function
        return function

    def discover(self, function: Callable[[], Sequence[Tool]]) -> Callable:
        """Makes a function return the tools of a plugin that learns them from its configuration or another system."""
        self._discover = function
        return function

    def config(self, function):
        """Makes a function take the configuration: its parameters are the attributes. It raises
        ConfigError to refuse."""
        self._config, self._config_schema = function, schema_of(function, 0)
        return function

    def health(self, function):
        """Makes a function say how a tool is, or the plugin for "": (healthy, message)."""
        self._health = function
        return function

    def call(self, tool, call=None, **arguments):
        """Calls a tool in process, for tests: the message of the result as a dictionary."""
        return self._run(call or Call({"tool": tool, "cwd": os.getcwd()}), tool, json.dumps(arguments).encode())

    def configure(self, **attributes):
        """Configures the plugin in process, for tests: the diagnostics."""
        state = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, state, ignore_errors=True)
        return self._configure({"config": json.dumps(attributes).encode(), "state_dir": state})["diagnostics"]

    # From here on: what the host asks for.

    def _describe(self, request=None):
        if request is not None:
            self.host_capabilities = request["capabilities"]
        if self._discover and self._configured:
            self._tools = {t.definition["name"]: t for t in self._discover()}
        has = [("commands", self.commands), ("hooks", self._hook), ("discovery", self._discover)]
        needs = self.needs
        return {"name": self.name, "version": self.version, "tools": [t.definition for t in self._tools.values()],
                "capabilities": ["calls"] + [name for name, is_set in has if is_set],
                "config_schema": None if self._config is None else json.dumps(self._config_schema).encode(),
                "keeps": self.keeps, "needs": None if needs is None else {
                    **{k: _NEED[needs.get(k)] for k in ("read", "write", "exec", "network")},
                    "secrets": [{"name": k, "need": _NEED[v]} for k, v in needs.get("secrets", {}).items()]}}

    def _serve_hook(self, request):
        if self._hook is None:
            raise NotImplementedError("the plugin serves no hooks")
        answer = dict(self._hook(request) or {})
        answer["decision"] = ("", "deny", "ask").index(answer.get("decision", ""))
        if isinstance(answer.get("arguments"), dict):
            answer["arguments"] = json.dumps(answer["arguments"]).encode()
        if isinstance(answer.get("result"), Result):
            answer["result"] = answer["result"].message
        return answer

    def _configure(self, request):
        def refuse(summary, path=(), detail=""):
            return {"diagnostics": [{"severity": 1, "summary": summary or "The configuration is refused.", "path": list(path), "detail": detail}]}
        try:
            config = json.loads(request["config"] or b"{}")
        except (ValueError, RecursionError) as e:
            return refuse("The configuration is not JSON: %s" % e)
        if not isinstance(config, dict):
            return refuse("The configuration is not an object.")
        self._state_dir, self._configured = request.get("state_dir", ""), True
        if self._config is None:
            return {"diagnostics": []}
        for name, value in config.items():
            known = self._config_schema["properties"].get(name)
            if known is None:
                return refuse("There is no attribute %s." % name, [name])
            if not _is(value, known.get("type")):
                return refuse("%s is not of the type %s." % (name, known["type"]), [name])
        try:
            self._config(**config)
        except ConfigError as e:
            return refuse(str(e), e.path, e.detail)
        except Exception as e:
            traceback.print_exc()
            return refuse("%s: %s" % (type(e).__name__, e))
        return {"diagnostics": []}

    def _check_arguments(self, tool, raw):
        try:
            arguments = json.loads(raw or b"{}")
        except (ValueError, RecursionError) as e:
            raise ToolError("invalid_arguments", "The arguments are not JSON: %s" % e)
        if not isinstance(arguments, dict):
            raise ToolError("invalid_arguments", "The arguments are not an object.")
        for name, value in arguments.items():
            known = tool.schema["properties"].get(name)
            if known is None:
                raise ToolError("invalid_arguments", "There is no parameter %s." % name)
            if not _is(value, known.get("type")):
                raise ToolError("invalid_arguments", "%s is not of the type %s." % (name, known["type"]))
        for name in tool.schema["required"]:
            if name not in arguments:
                raise ToolError("invalid_arguments", "The parameter %s is missing." % name)
        return arguments

    def _run(self, call, name, raw):
        try:
            tool = self._tools.get(name)
            if tool is None:
                raise ToolError("not_found", "The plugin %s has no tool %s; it has %s." % (self.name, name, ", ".join(self._tools)))
            call._state_dir = self._state_dir
            message = _result_of(tool.run(call, **self._check_arguments(tool, raw))).message
            if message["session_state"] is not None and tool.definition["traits"]["read_only"]:
                log.warning("the read-only tool %s returned session state, which hosts ignore", name)
                message["session_state"] = None
            return message
        except ToolError as e:
            return {"error": e._message()}
        except Exception as e:
            traceback.print_exc()
            return {"error": ToolError("internal", "The tool %s failed: %s: %s. This is a bug in the plugin %s. The error's data and the plugin's log contain the stack."
                                       % (name, type(e).__name__, e, self.name), data={"stack": traceback.format_exc()[-8192:]})._message()}

    def _in_parts(self, call, result, emit):
        """Announces a large result, and sends it in parts: the result that ends the call."""
        error = result.get("error") or {}
        values = [*(result.get(k) for k in ("output", "title", "metadata", "data")), error.get("message"), error.get("data"),
                  *(a.get("content") for a in result.get("attachments") or ())]
        if "large_results" not in self.host_capabilities or sum(len(v) for v in values if v) <= LARGE:
            return result
        try:
            encoded = encode(RESULT, result)
            answer = call._ask({"announce": {"bytes": len(encoded)}})
            if answer["outcome"] != 1:
                raise ToolError("execution_failed", "The result of %d bytes was not sent: %s" % (len(encoded), answer["message"]))
            for i in range(0, len(encoded), PART):
                emit({"result_part": encoded[i:i + PART]})
            return {}
        except ToolError as e:
            return {"error": e._message()}
        except Exception as e:
            traceback.print_exc()
            return {"error": ToolError("internal", "The result of the tool %s cannot be sent: %s: %s." % (call.tool, type(e).__name__, e))._message()}

    def _enter(self, call):
        with self._lock:
            if self._draining:
                return False
            self._calls.add(call)
            return True

    def _leave(self, call):
        with self._lock:
            self._calls.discard(call)
            self._lock.notify_all()

    def _begin(self, start, send):
        """Begins a call in a thread of its own. send gets its events, and its result last."""
        lock = threading.Lock()

        def emit(event):
            with lock:  # nothing may follow the result
                if not call.ended:
                    call.ended = "result" in event
                    send(event)

        def run():
            emit({"result": self._in_parts(call, self._run(call, start.get("tool", ""), start.get("arguments", b"")), emit)})
            self._leave(call)

        def give_up():  # the tool does not listen, and its thread is left behind
            emit({"result": {"error": {"kind": KINDS.index(call.reason), "message": "The tool did not stop when it was told to."}}})
            self._leave(call)

        def canceled():
            if not call.ended:
                timer = threading.Timer(CANCEL_GRACE, give_up)
                timer.daemon = True
                timer.start()

        call = Call(start, emit)
        call.on_cancel = canceled
        if self._enter(call):
            threading.Thread(target=run, daemon=True).start()
        else:
            emit({"result": {"error": {"kind": KINDS.index("unavailable"), "message": "The plugin is being replaced. Call again."}}})
        return call

    def _serve_call(self, requests, context):
        """One stream: yields the events of one call, and its result last."""
        try:
            start = next(requests).get("start")
        except StopIteration:
            return
        events = queue.Queue()
        call = self._begin(start or {}, events.put)

        def listen():
            with contextlib.suppress(Exception):  # the stream is over
                for m in requests:
                    call._hear(m)
            call.cancel()

        context.add_callback(lambda: events.put(None))
        threading.Thread(target=listen, daemon=True).start()
        while (event := events.get()) is not None:
            yield event
            if "result" in event:
                return
        call.cancel()

    def _serve_calls(self, requests, context):
        """One stream with any number of calls, which the host numbers: yields their events."""
        events, calls = queue.Queue(), {}

        def listen():
            with contextlib.suppress(Exception):  # the stream is over
                for m in requests:
                    number, message = m["call"], m.get("message", {})
                    if "start" in message:
                        calls[number] = self._begin(message["start"], lambda event, n=number: events.put({"call": n, "message": event}))
                        if calls[number].ended:
                            del calls[number]
                    elif number in calls:
                        calls[number]._hear(message)
            events.put(None)

        context.add_callback(lambda: events.put(None))
        threading.Thread(target=listen, daemon=True).start()
        while (event := events.get()) is not None:
            if "result" in event["message"]:
                calls.pop(event["call"], None)
            yield event
        for call in list(calls.values()):
            call.cancel()

    def _serve_health(self, request):
        name = request["tool"]
        if name and name not in self._tools:
            return {"status": 3, "message": "there is no tool %s" % name}
        healthy, message = self._health(name)
        return {"status": 1 if healthy else 2, "message": message}

    def _drain(self, request):
        grace = request["grace_ms"] / 1000 or None
        with self._lock:
            self._draining = True
            if self._lock.wait_for(lambda: not self._calls, grace):
                return {"canceled": 0}
            running = list(self._calls)
        for call in running:
            call.cancel("unavailable")
        with self._lock:
            self._lock.wait_for(lambda: not self._calls, CANCEL_GRACE)
        return {"canceled": len(running)}

    def _end(self):
        for call in list(self._calls):
            call.cancel("unavailable")
        with self._lock:
            self._lock.wait_for(lambda: not self._calls, 1)
        os._exit(0)

    def serve(self):
        """Serves the plugin until the host ends it. It does not return."""
        if os.environ.get("TOOLHOST_PLUGIN") != COOKIE:
            sys.exit("%s is a plugin for toolhost, which starts it: name it in a plugin block of toolhost.hcl." % self.name)
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter())
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
        if os.environ.get("TOOLHOST_WAIT_FOR_DEBUGGER"):
            _wait_for_debugger()
        handshake = os.dup(1)  # not inherited by what tools start
        os.dup2(2, 1)  # what is printed does not get in the way
        lifeline = int(os.environ.pop("TOOLHOST_LIFELINE_FD", "-1"))
        if lifeline >= 0:
            os.set_inheritable(lifeline, False)

            def watch():
                while os.read(lifeline, 1):
                    pass
                self._end()
            threading.Thread(target=watch, daemon=True).start()
        try:
            import grpc  # only here: it is slow to load, and tests in process do without
        except ImportError as e:
            sys.exit("%s cannot be served: %s. Install the package grpcio for %s, or set PYTHONPATH in the plugin block (env)." % (self.name, e, sys.executable))

        def unary(handle, request, response):
            return grpc.unary_unary_rpc_method_handler(
                lambda r, _: handle(r), request_deserializer=lambda b: decode(request, b), response_serializer=lambda m: encode(response, m))
        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=1000),  # each call has a thread; they are made as they are needed
            options=[("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("toolhost.v2.PluginService", {
            "Describe": unary(self._describe, DESCRIBE_REQUEST, DESCRIBE),
            "Hook": unary(self._serve_hook, HOOK_REQUEST, HOOK_RESPONSE),
            "Configure": unary(self._configure, CONFIGURE_REQUEST, CONFIGURE_RESPONSE),
            "Health": unary(self._serve_health, HEALTH_REQUEST, HEALTH_RESPONSE),
            "Drain": unary(self._drain, DRAIN_REQUEST, DRAIN_RESPONSE),
            "Call": grpc.stream_stream_rpc_method_handler(
                self._serve_call, request_deserializer=lambda b: decode(CALL_REQUEST, b), response_serializer=lambda m: encode(CALL_RESPONSE, m)),
            "Calls": grpc.stream_stream_rpc_method_handler(
                self._serve_calls, request_deserializer=lambda b: decode(CALLS_REQUEST, b), response_serializer=lambda m: encode(CALLS_RESPONSE, m)),
        }),))
        socket = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin.sock")
        server.add_insecure_port("unix:" + socket)
        server.start()
        os.write(handshake, ("1|2|unix|%s|grpc|\n" % socket).encode())
        server.wait_for_termination()


def _wait_for_debugger() -> None:
    """Waits for a client of debugpy, or without it for a debugger of the system."""
    try:
        import debugpy  # type: ignore
    except ImportError:
        log.warning("waiting for a debugger: gdb -p %d (or install debugpy)", os.getpid())
        while True:
            with open("/proc/self/status", encoding="ascii") as f:
                if "TracerPid:\t0\n" not in f.read():
                    return
            time.sleep(0.1)
    port = debugpy.listen(("127.0.0.1", 0))[1]
    log.warning("waiting for a debugger at 127.0.0.1:%d", port)
    debugpy.wait_for_client()

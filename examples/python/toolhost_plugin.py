"""Serves toolhost plugins written in Python: protocol version 2, over gRPC.

Copy this file beside the plugin. It needs Python 3.9 and the package grpcio, and nothing else:
the few protobuf messages of the protocol are encoded here. Files that a tool reads or changes are
reported by Result(effects=...), as the messages of the protocol have them.
"""

import collections
import contextlib
import hashlib
import inspect
import json
import os
import queue
import struct
import sys
import threading
import time
import traceback
import typing
from concurrent import futures

COOKIE = "6b1f4f4c-toolhost-plugin"
MAX_MESSAGE = 64 << 20
CANCEL_GRACE = 2.0  # seconds that a canceled tool has before it is answered for

KINDS = ("", "not_found", "invalid_arguments", "permission_denied", "security", "timeout", "canceled",
         "unavailable", "conflict", "execution_failed", "internal")
OUTCOMES = ("declined", "accepted", "declined", "unavailable", "timeout")

# The messages of plugin.proto: number -> (name, type). A type in brackets is repeated, a
# dictionary is a message. What is not here is ignored when it comes.
ROOT = {1: ("path", "string"), 2: ("writable", "bool")}
TRAITS = {1: ("read_only", "bool"), 2: ("concurrency_safe", "bool"), 3: ("dangerous", "bool"),
          4: ("auto_execute", "bool"), 5: ("disabled", "bool"), 6: ("idempotent", "bool")}
TOOL = {1: ("name", "string"), 2: ("description", "string"), 3: ("input_schema", "bytes"), 4: ("output_schema", "bytes"),
        5: ("traits", TRAITS), 6: ("category", "string"), 7: ("version", "string"), 8: ("examples", ["string"]),
        9: ("stdin_parameter", "string"), 10: ("default_timeout_ms", "int")}
DESCRIBE = {1: ("name", "string"), 2: ("version", "string"), 3: ("min_host_version", "string"),
            4: ("config_schema", "bytes"), 5: ("tools", [TOOL]), 6: ("capabilities", ["string"])}
CONFIGURE_REQUEST = {1: ("config", "bytes"), 2: ("roots", [ROOT]), 3: ("state_dir", "string"), 4: ("host_version", "string")}
DIAGNOSTIC = {1: ("severity", "int"), 2: ("summary", "string"), 3: ("detail", "string"), 4: ("path", ["string"])}
CONFIGURE_RESPONSE = {1: ("diagnostics", [DIAGNOSTIC])}
START = {1: ("call_id", "string"), 2: ("tool", "string"), 3: ("arguments", "bytes"), 4: ("session_id", "string"),
         5: ("message_id", "string"), 6: ("cwd", "string"), 7: ("roots", [ROOT]), 8: ("timeout_ms", "int"), 9: ("session_state", "bytes")}
ANSWER = {1: ("ask_id", "int"), 2: ("outcome", "int"), 3: ("values", ["string"]), 4: ("message", "string")}
FILE_STATE = {1: ("path", "string"), 2: ("mtime_ns", "int"), 3: ("size", "int"), 4: ("hash", "bytes"), 5: ("partial", "bool")}
CALL_REQUEST = {1: ("start", START), 2: ("answer", ANSWER), 3: ("cancel", {1: ("reason", "int")}),
                4: ("file_states", {1: ("query_id", "int"), 2: ("states", [FILE_STATE])})}
PERMISSION = {1: ("kind", "string"), 2: ("title", "string"), 3: ("patterns", ["string"]), 4: ("metadata", "bytes")}
QUESTION = {1: ("text", "string"), 2: ("options", ["string"]), 3: ("multiple", "bool"), 4: ("free_text", "bool"),
            5: ("defaults", ["string"]), 6: ("optional", "bool")}
ERROR = {1: ("kind", "int"), 2: ("code", "int"), 3: ("message", "string")}
ATTACHMENT = {1: ("type", "int"), 2: ("path", "string"), 3: ("media_type", "string"), 4: ("content", "bytes")}
EFFECT = {1: ("operation", "int"), 2: ("file", FILE_STATE), 3: ("hash_before", "bytes")}
RESULT = {1: ("output", "string"), 2: ("error", ERROR), 3: ("title", "string"), 4: ("metadata", "bytes"), 5: ("data", "bytes"),
          6: ("attachments", [ATTACHMENT]), 7: ("effects", [EFFECT]), 8: ("session_state", "optional bytes"), 9: ("cwd", "string")}
CALL_RESPONSE = {1: ("progress", {1: ("title", "string"), 2: ("metadata", "bytes")}),
                 2: ("output", {1: ("stream", "int"), 2: ("chunk", "bytes")}),
                 3: ("ask", {1: ("id", "int"), 2: ("permission", PERMISSION), 3: ("question", QUESTION)}),
                 4: ("file_state_query", {1: ("id", "int"), 2: ("paths", ["string"])}), 5: ("result", RESULT)}
HEALTH_REQUEST = {1: ("tool", "string")}
HEALTH_RESPONSE = {1: ("status", "int"), 2: ("message", "string"), 3: ("details", "bytes")}
DRAIN_REQUEST = {1: ("grace_ms", "int")}
DRAIN_RESPONSE = {1: ("canceled", "int")}


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
    """A failed call. The message says what was wrong and what to do next."""

    def __init__(self, kind, message, code=0):
        super().__init__(message)
        if kind not in KINDS[1:]:
            raise ValueError("%r is not one of %s" % (kind, ", ".join(KINDS[1:])))
        self.kind, self.code = kind, code


class ConfigError(Exception):
    """A configuration that is refused; path leads to the value: names and indices."""

    def __init__(self, summary, path=(), detail=""):
        super().__init__(summary)
        self.path, self.detail = [str(p) for p in path], detail


class Result:
    """What a call gives back, when it is more than a text."""

    def __init__(self, output="", data=None, title="", metadata=None, attachments=(), effects=(), session_state=None, cwd=""):
        self.message = {
            "output": output, "title": title, "cwd": cwd, "session_state": session_state,
            "data": None if data is None else json.dumps(data).encode(),
            "metadata": None if metadata is None else json.dumps(metadata).encode(),
            "attachments": list(attachments), "effects": list(effects),
        }


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
        self.session_state = start.get("session_state", b"")
        self.timeout = start.get("timeout_ms", 0) / 1000  # seconds; 0: no limit
        self.canceled = threading.Event()
        self.reason = "canceled"
        self.on_cancel = lambda: None
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

    def _answered(self, answer):
        with self._lock:
            waiting = self._waiting.pop(answer["ask_id"], None)
        if waiting:
            waiting.put(answer)


Tool = collections.namedtuple("Tool", "definition schema run")

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
    if hint not in JSON_TYPES:
        raise TypeError("%r has no place in a schema; use str, int, float, bool, list[…], dict, Literal, Optional or Annotated" % (hint,))
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


class Plugin:
    """One plugin: its name, its version as major.minor.patch, and its tools."""

    def __init__(self, name, version):
        self.name, self.version = name, version
        self._tools, self._config, self._config_schema = {}, None, None
        self._health = lambda tool: (True, "")
        self._lock, self._calls, self._draining = threading.Condition(), set(), False

    def tool(self, name, description, read_only=False, concurrency_safe=False, dangerous=False, idempotent=False,
             examples=(), output_schema=None, stdin_parameter="", default_timeout_ms=0):
        """Makes a function a tool. Its first parameter is the Call; the others, with their type
        hints, are the tool's. It returns a text or a Result, and may run several times at once."""
        def add(function):
            schema = schema_of(function)
            self._tools[name] = Tool({
                "name": name, "description": description, "input_schema": json.dumps(schema).encode(), "category": "custom",
                "output_schema": None if output_schema is None else json.dumps(output_schema).encode(),
                "traits": {"read_only": read_only, "concurrency_safe": concurrency_safe, "dangerous": dangerous, "idempotent": idempotent},
                "examples": list(examples), "stdin_parameter": stdin_parameter, "default_timeout_ms": default_timeout_ms,
            }, schema, function)
            return function
        return add

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
        return self._configure({"config": json.dumps(attributes).encode()})["diagnostics"]

    # From here on: what the host asks for.

    def _describe(self):
        return {"name": self.name, "version": self.version, "tools": [t.definition for t in self._tools.values()],
                "config_schema": None if self._config is None else json.dumps(self._config_schema).encode()}

    def _configure(self, request):
        def refuse(summary, path=(), detail=""):
            return {"diagnostics": [{"severity": 1, "summary": summary or "The configuration is refused.", "path": list(path), "detail": detail}]}
        try:
            config = json.loads(request["config"] or b"{}")
        except (ValueError, RecursionError) as e:
            return refuse("The configuration is not JSON: %s" % e)
        if not isinstance(config, dict):
            return refuse("The configuration is not an object.")
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
            result = tool.run(call, **self._check_arguments(tool, raw))
            return (result if isinstance(result, Result) else Result("" if result is None else str(result))).message
        except ToolError as e:
            return {"error": {"kind": KINDS.index(e.kind), "code": e.code, "message": str(e)}}
        except Exception as e:
            traceback.print_exc()
            return {"error": {"kind": KINDS.index("internal"), "message": "The tool %s failed: %s: %s. This is a defect in the plugin %s; its log has more."
                              % (name, type(e).__name__, e, self.name)}}

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

    def _serve_call(self, requests, context):
        """One stream: yields the events of one call, and its result last."""
        try:
            start = next(requests).get("start")
        except StopIteration:
            return
        events = queue.Queue()
        call = Call(start or {}, events.put)
        if not self._enter(call):
            yield {"result": {"error": {"kind": KINDS.index("unavailable"), "message": "The plugin is being replaced. Call again."}}}
            return

        def run():
            events.put({"result": self._run(call, start["tool"], start["arguments"])})
            self._leave(call)

        def listen():
            with contextlib.suppress(Exception):  # the stream is over
                for m in requests:
                    if "cancel" in m:
                        call.cancel("timeout" if m["cancel"]["reason"] == 2 else "canceled")
                    elif "answer" in m:
                        call._answered(m["answer"])
            call.cancel()

        call.on_cancel = lambda: events.put(None)
        context.add_callback(call.cancel)
        for f in (run, listen):
            threading.Thread(target=f, daemon=True).start()
        end = None  # when a canceled tool is given up
        while True:
            try:
                event = events.get(timeout=None if end is None else max(0, end - time.monotonic()))
            except queue.Empty:  # it does not listen, and its thread is left behind
                self._leave(call)
                event = {"result": {"error": {"kind": KINDS.index(call.reason), "message": "The tool did not stop when it was told to."}}}
            if event is None:
                if not context.is_active():
                    return
                end = time.monotonic() + CANCEL_GRACE
                continue
            yield event
            if "result" in event:
                return

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
        import grpc  # only here: it is slow to load, and tests in process do without

        def unary(handle, request, response):
            return grpc.unary_unary_rpc_method_handler(
                lambda r, _: handle(r), request_deserializer=lambda b: decode(request, b), response_serializer=lambda m: encode(response, m))
        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=1000),  # each call has a thread; they are made as they are needed
            options=[("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("toolhost.v2.PluginService", {
            "Describe": unary(lambda _: self._describe(), {}, DESCRIBE),
            "Configure": unary(self._configure, CONFIGURE_REQUEST, CONFIGURE_RESPONSE),
            "Health": unary(self._serve_health, HEALTH_REQUEST, HEALTH_RESPONSE),
            "Drain": unary(self._drain, DRAIN_REQUEST, DRAIN_RESPONSE),
            "Call": grpc.stream_stream_rpc_method_handler(
                self._serve_call, request_deserializer=lambda b: decode(CALL_REQUEST, b), response_serializer=lambda m: encode(CALL_RESPONSE, m)),
        }),))
        socket = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin.sock")
        server.add_insecure_port("unix:" + socket)
        server.start()
        os.write(handshake, ("1|2|unix|%s|grpc|\n" % socket).encode())
        server.wait_for_termination()

import dataclasses
import json
import multiprocessing
import os
import queue
import tempfile
import types
import unittest

import toolhost_sdk
from toolhost_sdk import Call, ConfigError, Plugin, Result, Store, ToolError, make_tool


@dataclasses.dataclass
class Weather:
    city: str
    high: float = 3

    def __str__(self):
        return "%s: %g" % (self.city, self.high)


plugin = Plugin("kit", "1.0.0", needs={"network": "required", "secrets": {"TOKEN": "optional"}}, commands=True)


@plugin.config
def configure(days: int = 3):
    if days < 1:
        raise ConfigError("There are no days.", ["days"])
    plugin.days = days


@plugin.tool("weather", "The weather.", read_only=True, deprecated="Use another.", cacheable=True)
def weather(call, city: str) -> Weather:
    return Weather(city, plugin.days)


@plugin.tool("work", "Work.", role="plan", program={
    "operands": 1, "first": "name", "options": {"b": {"argument": "x=1"}, "a": {"value": True}}, "others": ["c"], "operand": "script"})
def work(call, name: str):
    call.progress_of("working", 1, 4)
    n = call.store().update("runs", lambda old: (old or 0) + 1)
    text = call.call_tool("read", file_path=name)["output"]
    return Result("%s %d" % (text, n), session_state={"seen": call.state({"seen": 0})["seen"] + 1})


@plugin.tool("broken", "A bug.", read_only=True)
def broken(call, state: bool = False):
    if state:
        return Result("x", session_state=1)
    raise KeyError("a bug")


@plugin.tool("busy", "Is busy.", read_only=True)
def busy(call):
    raise ToolError("unavailable", "Too many requests.", retry_after=1.5)


@plugin.hook
def hook(event):
    return {"decision": "deny", "reason": event["tool"], "arguments": {"a": 1}}


def count(directory):
    for _ in range(20):
        Store(directory).update("n", lambda old: (old or 0) + 1)


class TestKit(unittest.TestCase):
    def setUp(self):
        self.assertEqual(plugin.configure(), [])

    def test_description(self):
        d = plugin._describe()
        self.assertEqual(d["needs"]["network"], 2)
        self.assertEqual(d["needs"]["secrets"], [{"name": "TOKEN", "need": 1}])
        self.assertEqual(d["capabilities"], ["calls", "commands", "hooks"])
        first = toolhost_sdk.decode(toolhost_sdk.DESCRIBE, toolhost_sdk.encode(toolhost_sdk.DESCRIBE, d))["tools"][0]
        self.assertEqual(first["deprecated"], "Use another.")
        self.assertTrue(first["traits"]["cacheable"])
        self.assertEqual(json.loads(first["output_schema"])["required"], ["city"])
        second = toolhost_sdk.decode(toolhost_sdk.DESCRIBE, toolhost_sdk.encode(toolhost_sdk.DESCRIBE, d))["tools"][1]
        self.assertEqual(second["role"], "plan")
        self.assertEqual([(o["key"], o["value"]["argument"], o["value"]["value"]) for o in second["program"]["options"]],
                         [("a", "", True), ("b", "x=1", False)])
        self.assertEqual((second["program"]["operands"], second["program"]["others"], second["program"]["operand"]), (1, ["c"], "script"))

    def test_typed_output_and_defaults(self):
        r = plugin.call("weather", city="Oslo")
        self.assertEqual((r["output"], json.loads(r["data"])), ("Oslo: 3", {"city": "Oslo", "high": 3}))
        self.assertEqual(plugin.configure(days=0)[0]["path"], ["days"])

    def test_calls_state_and_store(self):
        sent = []

        def send(event):
            sent.append(event)
            if "ask" in event:
                tool = event["ask"]["tool_call"]
                self.assertEqual((tool["tool"], json.loads(tool["arguments"])), ("read", {"file_path": "a"}))
                call._answered({"ask_id": event["ask"]["id"], "outcome": 1, "content": b'{"output":"text","error":null}'})
        for n in (1, 2):
            call = Call({"tool": "work", "session_state": b'{"seen": 4}'}, send)
            r = plugin.call("work", call, name="a")
            self.assertEqual((r["output"], r["session_state"]), ("text %d" % n, b'{"seen": 5}'))
        self.assertEqual(json.loads(sent[0]["progress"]["metadata"]), {"progress": 1, "total": 4})

    def test_many_calls_on_one_stream(self):
        requests, over = queue.Queue(), []
        context = types.SimpleNamespace(add_callback=over.append)
        events = plugin._serve_calls(iter(requests.get, None), context)

        def start(number):
            requests.put({"call": number, "message": {"start": {"tool": "weather", "arguments": b'{"city": "Oslo"}'}}})
        requests.put({"call": 99, "message": {"cancel": {"reason": 1}}})  # for a call that does not run
        for number in range(1, 21):
            start(number)
        ended = {}
        while len(ended) < 21:
            event = next(events)
            self.assertNotIn(event["call"], ended)
            if "result" in event["message"]:
                ended[event["call"]] = event["message"]["result"]["output"]
            if len(ended) == 20:  # the stream goes on after the calls
                start(21)
        self.assertEqual(ended, {number: "Oslo: 3" for number in range(1, 22)})
        over[0]()
        self.assertEqual(list(events), [])

    def test_large_results(self):
        sent, text = queue.Queue(), "\u00e9" * (1 << 20)
        large = Plugin("large", "1")
        large.host_capabilities = ["large_results"]
        large._tools["large"] = make_tool(lambda call: Result(text, {"n": 1}), "large", "A long text.")
        for outcome in (1, 2):
            call = large._begin({"tool": "large"}, sent.put)
            ask = sent.get(timeout=60)["ask"]
            self.assertTrue(sent.empty())
            call._hear({"answer": {"ask_id": ask["id"], "outcome": outcome, "message": "there is no room"}})
            parts, event = b"", sent.get(timeout=60)
            while "result_part" in event:
                parts, event = parts + event["result_part"], sent.get(timeout=60)
            if outcome == 1:
                self.assertEqual((len(parts), event), (ask["announce"]["bytes"], {"result": {}}))
                result = toolhost_sdk.decode(toolhost_sdk.RESULT, parts)
                self.assertEqual((result["output"], result["data"]), (text, b'{"n": 1}'))
            else:
                self.assertEqual(parts, b"")
                self.assertIn("there is no room", event["result"]["error"]["message"])
        large.host_capabilities = []
        large._begin({"tool": "large"}, sent.put)
        self.assertEqual(sent.get(timeout=60)["result"]["output"], text)

    def test_failures(self):
        e = plugin.call("busy")["error"]
        self.assertEqual(e["retry_after_ms"], 1500)
        e = plugin.call("broken")["error"]
        self.assertIn("test_sdk.py", json.loads(e["data"])["stack"])
        self.assertIsNone(plugin.call("broken", state=True)["session_state"])

    def test_hook_and_discovery(self):
        answer = plugin._serve_hook({"tool": "rm"})
        self.assertEqual((answer["decision"], answer["reason"], answer["arguments"]), (1, "rm", b'{"a": 1}'))
        found = Plugin("found", "1.0.0")
        found.discover(lambda: [make_tool(lambda call: "x", "late", "Late.")])
        self.assertEqual(found._describe()["tools"], [])
        found.configure()
        self.assertEqual([t["name"] for t in found._describe()["tools"]], ["late"])

    def test_store(self):
        with tempfile.TemporaryDirectory() as directory:
            store = Store(directory)
            with open(os.path.join(directory, "new-left"), "w", encoding="utf-8"):
                pass
            all_ = [multiprocessing.Process(target=count, args=(directory,)) for _ in range(3)]
            for p in all_:
                p.start()
            for p in all_:
                p.join()
            self.assertEqual(store.get("n"), 60)
            self.assertEqual(store.keys("n"), ["n"])
            store.delete("n")
            self.assertEqual(store.get("n", "none"), "none")
            self.assertEqual(os.listdir(directory), ["lock"])
            with self.assertRaises(ToolError):
                store.set("big", "x" * (1 << 20))


if __name__ == "__main__":
    unittest.main()

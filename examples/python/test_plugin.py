import hashlib
import json
import os
import tempfile
import unittest

import toolhost_plugin
from main import plugin

CONTENT = b"name,size\na,1\nb,3\nbb,\n"


class TestTools(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.dir.name)
        with open("t.csv", "wb") as f:
            f.write(CONTENT)

    def test_columns(self):
        r = plugin.call("csv_columns", file="t.csv")
        self.assertEqual(r["output"], "3 rows\nname: 3 values, 3 distinct\nsize: 2 values, 2 distinct, 1 to 3, mean 2")
        self.assertEqual(json.loads(r["data"])["columns"][1]["max"], 3)
        self.assertEqual(r["effects"][0]["file"]["hash"], hashlib.sha256(CONTENT).digest())

    def test_find(self):
        self.assertEqual(plugin.call("csv_find", file="t.csv", column="name", text="b", limit=1)["output"], "name,size\nb,3\n(1 more)\n")

    def test_refuses(self):
        for arguments, kind, words in (
            ({"file": "none.csv", "column": "a", "text": "b"}, "not_found", "none.csv"),
            ({"file": "t.csv", "column": "colour", "text": "b"}, "invalid_arguments", "it has name, size"),
            ({"file": "t.csv", "column": "name"}, "invalid_arguments", "text is missing"),
            ({"file": "t.csv", "column": "name", "text": "b", "limit": "many"}, "invalid_arguments", "not of the type integer"),
        ):
            error = plugin.call("csv_find", **arguments)["error"]
            self.assertEqual(toolhost_plugin.KINDS[error["kind"]], kind)
            self.assertIn(words, error["message"])


class TestMessages(unittest.TestCase):
    def test_there_and_back(self):
        for fields, message in (
            (toolhost_plugin.START, {"call_id": "é", "tool": "t", "arguments": b"{}", "session_id": "", "message_id": "", "cwd": "/",
                                     "roots": [{"path": "/a", "writable": True}, {"path": "/b", "writable": False}],
                                     "timeout_ms": -1, "session_state": bytes(range(256))}),
            (toolhost_plugin.DIAGNOSTIC, {"severity": 1, "summary": "s" * 300, "detail": "", "path": ["a", "", "0"]}),
        ):
            raw = toolhost_plugin.encode(fields, message)
            self.assertEqual(toolhost_plugin.decode(fields, raw), message)
            # Fields that are not known, of each wire type, are ignored.
            self.assertEqual(toolhost_plugin.decode(fields, b"\xc2\xb8\x02\x01x\xc0\xb8\x02\x07\xc5\xb8\x02abcd\xc1\xb8\x02abcdefgh" + raw), message)
            with self.assertRaises(ValueError):
                toolhost_plugin.decode(fields, raw[:-1])


if __name__ == "__main__":
    unittest.main()

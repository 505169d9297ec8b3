import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { makeTool, objectOf, p, Plugin, ToolError } from "@toolhost/sdk";
import { plugin } from "./main.js";

const dir = mkdtempSync(join(tmpdir(), "jsoninfo-"));

test("tools", async () => {
  writeFileSync(join(dir, "a.json"), '{"x":1,"y":2}');
  assert.deepEqual(await plugin.configure({ most: 1 }, dir), []);
  const r = await plugin.call("json_keys", { file: "a.json" }, { cwd: dir });
  assert.equal(r.output, "x");
  assert.deepEqual(r.data, { keys: ["x"] });
  await assert.rejects(plugin.call("json_keys", { file: "none.json" }, { cwd: dir }), (e) => e.kind === "not_found");
  await assert.rejects(plugin.call("json_keys", {}), (e) => e.kind === "invalid_arguments" && e.message.includes("file"));
});

test("store, progress and state", async () => {
  const sent = [];
  assert.equal((await plugin.call("note", { text: "one" })).output, "1");
  const r = await plugin.call("note", { text: "two" }, { send: (m) => sent.push(m) });
  assert.equal(r.output, "2");
  assert.equal(Buffer.from(r.sessionState).toString(), '{"last":"two"}');
  assert.equal(Buffer.from(sent[0].value.metadata).toString(), '{"progress":0,"total":1}');
  assert.ok(readdirSync(join(dir, "store")).every((n) => n.endsWith(".json")));
});

test("configuration", async () => {
  assert.deepEqual((await plugin.configure({ most: 0 }))[0].path, ["most"]);
  assert.deepEqual((await plugin.configure({ mots: 1 }))[0].path, ["mots"]);
});

test("failures", async () => {
  const broken = new Plugin({ name: "broken", version: "1.0.0" });
  broken.tool({ name: "bug", description: "A bug.", readOnly: true, input: { a: p.object({ n: p.integer("", { default: 3 }) }, "", { default: {} }) } }, (_, { a }) => {
    if (a.n === 3) throw new TypeError("a bug");
    return { output: "fine", sessionState: 1 };
  });
  await assert.rejects(broken.call("bug"), (e) => e instanceof ToolError && e.kind === "internal" && e.options.data.stack.includes("main.test.js"));
  assert.equal((await broken.call("bug", { a: { n: 1 } })).sessionState, undefined); // a read-only tool has no state
  assert.ok(makeTool && objectOf);
});

import assert from "node:assert/strict";
import test from "node:test";
import { plugin } from "./dist/__NAME__.mjs";

test("greets", async () => {
  assert.equal((await plugin.call("__TOOL__", { name: "World" })).output, "Hello, World");
  assert.equal((await plugin.call("__TOOL__", { name: "World", style: "loud" })).output, "HELLO, WORLD");
});

test("refuses", async () => {
  await assert.rejects(plugin.call("__TOOL__", {}), (e) => e.kind === "invalid_arguments" && e.message.includes("name"));
  assert.deepEqual((await plugin.configure({ greeting: " " }))[0].path, ["greeting"]);
});

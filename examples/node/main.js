#!/usr/bin/env node
// A plugin for toolhost with the SDK for Node: the keys of JSON files, and notes that stay.
import { readFile, realpath, stat } from "node:fs/promises";
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigError, objectOf, p, Plugin, ToolError } from "@toolhost/sdk";

let most = 0;

export const plugin = new Plugin({
  name: "jsoninfo", version: "0.1.0", needs: { read: "required" },
  config: { most: p.integer("How many keys are listed at most.", { default: 100 }) },
  configure(config) {
    if (config.most < 1) throw new ConfigError("The number of keys must be at least 1.", ["most"]);
    most = config.most;
  },
});

plugin.tool({
  name: "json_keys", description: "List the keys of the object in a JSON file.", readOnly: true, concurrencySafe: true,
  input: { file: p.string("The JSON file.", { path: "read" }) },
  output: objectOf({ keys: p.list(p.string()) }),
}, async (call, { file }) => {
  let path, content;
  try {
    path = await realpath(resolve(call.cwd, file));
    content = await readFile(path);
  } catch (e) {
    throw new ToolError("not_found", `${file} cannot be read: ${e.code}. Name another file.`);
  }
  let value;
  try {
    value = JSON.parse(content);
  } catch (e) {
    throw new ToolError("invalid_arguments", `${file} is not JSON: ${e.message}.`);
  }
  const st = await stat(path, { bigint: true });
  const keys = Object.keys(Object(value)).slice(0, most);
  return {
    output: keys.join("\n"), data: { keys }, title: file,
    effects: [{ operation: "read", path, mtimeNs: st.mtimeNs, size: st.size, hash: createHash("sha256").update(content).digest() }],
  };
});

plugin.tool({
  name: "note", description: "Keep a note, and return how many there are.",
  input: { text: p.string("The note."), wait: p.integer("Seconds to wait first.", { default: 0, minimum: 0 }) },
}, async (call, { text, wait }) => {
  call.progressOf("waiting", 0, 1);
  if (wait) await sleep(wait * 1000, undefined, { signal: call.signal });
  const store = call.store();
  const notes = [...(store.get("notes") ?? []), text];
  store.set("notes", notes.slice(-100));
  call.log.info("noted", { notes: notes.length });
  return { output: `${notes.length}`, sessionState: { last: text } };
});

if (process.argv[1] && import.meta.url.endsWith(process.argv[1].split("/").pop())) plugin.serve();

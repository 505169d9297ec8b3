// A client of MCP by the official TypeScript SDK: client.cjs PEERS 1|2 COMMAND ARGS…
// It prints what it sees as one JSON object.
const { createRequire } = require("module");
const [peers, generation, command, ...args] = process.argv.slice(2);
const load = createRequire(peers + "/package.json");
const { Client } = load(generation === "1" ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = load(generation === "1" ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio");

async function main() {
  const client = new Client({ name: "peer", version: "1" }, { capabilities: { elicitation: { form: {} } } });
  const seen = { asked: [], progress: [] };
  const answer = async (request) => {
    seen.asked.push(request.params.message);
    const known = { allow: true, age: 36, name: "Ada" };
    const wanted = Object.keys(request.params.requestedSchema.properties);
    return { action: "accept", content: Object.fromEntries(Object.entries(known).filter(([name]) => wanted.includes(name))) };
  };
  if (generation === "1") {
    client.setRequestHandler(load("@modelcontextprotocol/sdk/types.js").ElicitRequestSchema, answer);
  } else {
    client.setRequestHandler("elicitation/create", answer);
  }
  await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
  const call = (name, args, options) =>
    generation === "1" ? client.callTool({ name, arguments: args }, undefined, options) : client.callTool({ name, arguments: args }, options);
  seen.instructions = client.getInstructions();
  seen.tools = (await client.listTools()).tools.map((t) => t.name);
  seen.read = await call("read", { file_path: "notes.txt" });
  seen.failed = await call("read", { file_path: "none" });
  // The SDK loses a notification that it reads together with the result: the last sleep parts them.
  seen.printed = await call("bash", { command: "echo first; sleep 0.5; echo second; sleep 0.5" }, { onprogress: (p) => seen.progress.push(p) });
  seen.asking = await call("test_ask", {});
  // Questions of mounted servers: one of an early revision, and one of the newest.
  seen.older = await call("older_demand", { text: "plain" });
  seen.newer = await call("test_input_required_result_elicitation", {});
  const abort = new AbortController();
  setTimeout(() => abort.abort("enough"), 300);
  seen.canceled = await call("bash", { command: "sleep 62" }, { signal: abort.signal }).then(() => "it has a result", (e) => "error");
  seen.after = await call("bash", { command: "echo on" });
  await client.close();
  console.log(JSON.stringify(seen));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});

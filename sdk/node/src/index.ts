/**
 * Plugins for toolhost in TypeScript and JavaScript:
 *
 *     const plugin = new Plugin({ name: "greeter", version: "1.0.0", needs: {} });
 *     plugin.tool({ name: "greet", description: "Greet somebody.", readOnly: true, input: { name: p.string("Whom to greet.") } },
 *       (call, { name }) => `Hello, ${name}`);
 *     plugin.serve();
 */
import * as grpc from "@grpc/grpc-js";
import * as fs from "node:fs";
import * as inspector from "node:inspector";
import * as net from "node:net";
import * as path from "node:path";
import { Call, log, type Result } from "./call.js";
import { ConfigError, kinds, ToolError, type Kind } from "./error.js";
import { argumentsOf, complete, objectOf, Violation, type Args, type Params, type Schema } from "./schema.js";
import { deserialize, json, serialize, text, type Fields } from "./wire.js";

export { Call, log, type Effect, type Result } from "./call.js";
export { ConfigError, ToolError, type Kind } from "./error.js";
export { p, objectOf, type Args, type Param, type Params, type Schema } from "./schema.js";
export { Store } from "./store.js";

/** Whether a plugin needs a grant of the operator. */
export type Need = "required" | "optional";

/** The program of the shell that has the same name as a tool; see docs/protocol.md. */
export interface Program {
  operands?: number;
  first?: string;
  options?: Record<string, { argument?: string; value?: boolean; suffix?: string; optional?: boolean }>;
  others?: string[];
  operand?: "" | "variable" | "script";
  number?: string;
  otherwise?: string;
  special?: string;
}

export interface ToolOptions<P extends Params> {
  name: string;
  description: string;
  input?: P;
  /** The schema of the data in results; see objectOf. */
  output?: Schema;
  readOnly?: boolean;
  concurrencySafe?: boolean;
  dangerous?: boolean;
  idempotent?: boolean;
  cacheable?: boolean;
  disabled?: boolean;
  title?: string;
  version?: string;
  /** Names the replacement of a tool that will be removed. */
  deprecated?: string;
  /** JSON pointers to parts of the data that differ between equal calls, such as "/rows/*\/time". */
  varying?: string[];
  /** JSON pointers to arrays of the data whose order does not matter. */
  unordered?: string[];
  /** Words by which a search finds the tool, in addition to its name and description. */
  keywords?: string[];
  /** The purpose of a tool that the host uses itself, such as "shell" or "undo"; see docs/protocol.md. */
  role?: string;
  /** Describes the program of the shell that has the same name as the tool. */
  program?: Program;
  examples?: string[];
  stdinParameter?: string;
  defaultTimeoutMs?: number;
}

export interface Tool {
  definition: ToolOptions<any>;
  schema: Schema;
  run(call: Call, args: any): unknown;
}

/** Returns a tool. The handler returns a text, a Result, or a promise of one. Several calls run at once. */
export function makeTool<P extends Params>(definition: ToolOptions<P>, run: (call: Call, args: Args<P>) => string | Result | void | Promise<string | Result | void>): Tool {
  return { definition, schema: objectOf(definition.input ?? {}), run };
}

export interface HookAnswer {
  decision?: "deny" | "ask";
  reason?: string;
  arguments?: object;
  result?: Result;
}

export interface PluginOptions<C extends Params> {
  name: string;
  version: string;
  minHostVersion?: string;
  /** What the plugin needs from the operator. {} means nothing; without it nothing is declared. */
  needs?: { read?: Need; write?: Need; exec?: Need; network?: Need; secrets?: Record<string, Need> };
  /** Files that the plugin keeps in its state directory for a time, so that the operator's retention applies to them. */
  keeps?: { kind: "output" | "undo"; files?: string[]; ageAttribute?: string }[];
  /** The attributes of the operator's config block. */
  config?: C;
  /** Receives the configuration once, with its defaults. It throws a ConfigError to refuse it. */
  configure?(config: Args<C>, setup: { stateDir: string; outputBytes: number; hostVersion: string }): void | Promise<void>;
  /** Checks a tool, or the plugin for "". It returns the problem, or nothing. */
  health?(tool: string): string | void | Promise<string | void>;
  hook?(event: Fields): HookAnswer | void | Promise<HookAnswer | void>;
  /** Returns the tools of a plugin that learns them from its configuration or another system. */
  discover?(): Tool[] | Promise<Tool[]>;
  /** The tools start commands that may call tools; see Call.commands. */
  commands?: boolean;
  /** Is called once before the process ends. */
  close?(): void | Promise<void>;
}

const cancelGrace = 2000;
const needs = { optional: 1, required: 2 };
const operations = { read: 1, create: 2, modify: 3, delete: 4 };

// A larger result is announced to the host, and sent in parts.
const [largeSize, partSize] = [1 << 20, 256 << 10];
const encodeResult = serialize("Result");

function messageOf(r: Result): object {
  return {
    output: r.output ?? (r.data === undefined ? "" : JSON.stringify(r.data)), title: r.title ?? "", cwd: r.cwd ?? "", data: json(r.data), metadata: json(r.metadata),
    attachments: (r.attachments ?? []).map((a) => ({ type: a.type === "image" ? 2 : 1, path: a.path ?? "", mediaType: a.mediaType ?? "", content: a.content ?? new Uint8Array() })),
    effects: (r.effects ?? []).map(({ operation, hashBefore, ...file }) => ({ operation: operations[operation], file, hashBefore: hashBefore ?? new Uint8Array() })),
    ...(r.sessionState === undefined ? {} : { sessionState: json(r.sessionState) }),
  };
}

function failure(e: unknown, where: string): object {
  if (e instanceof Error && e.name === "AbortError" && e.cause instanceof ToolError) e = e.cause;
  if (e instanceof ToolError) {
    return { kind: kinds.indexOf(e.kind), code: e.options.code ?? 0, message: e.message, retryAfterMs: BigInt(Math.round((e.options.retryAfter ?? 0) * 1000)), data: json(e.options.data) };
  }
  const stack = (e instanceof Error && e.stack) || String(e);
  log.error(`${where} failed: ${e}`, { stack });
  return { kind: kinds.indexOf("internal"), message: `${where} failed: ${e}. This is a bug in the plugin. The error's data and the plugin's log contain the stack.`, data: json({ stack: stack.slice(0, 8192) }) };
}

// hear takes a message of the host about a running call.
function hear(call: Call | undefined, m: Fields): void {
  if (m.case === "cancel") call?.cancel(m.value.reason === 2 ? "timeout" : "canceled");
  else if (m.case === "answer") call?.answered(m.value.askId, m.value);
  else if (m.case === "fileStates") call?.answered(m.value.queryId, m.value);
}

/** A plugin: its name, its version as major.minor.patch, and its tools. */
export class Plugin<C extends Params = {}> {
  private tools = new Map<string, Tool>();
  private readonly calls = new Set<Call>();
  private idle: (() => void)[] = [];
  private draining = false;
  private configured = false;
  private stateDir = "";
  private host: string[] = [];

  constructor(private readonly options: PluginOptions<C>) {}

  /** Adds a tool; see makeTool. */
  tool<P extends Params>(definition: ToolOptions<P>, run: (call: Call, args: Args<P>) => string | Result | void | Promise<string | Result | void>): this {
    this.tools.set(definition.name, makeTool(definition, run));
    return this;
  }

  /** Calls a tool in process, for tests. It throws the ToolError of a failed call. */
  async call(name: string, args: object = {}, o: { cwd?: string; state?: unknown; send?: (m: any) => void } = {}): Promise<any> {
    const start = { callId: "test", tool: name, cwd: o.cwd ?? process.cwd(), roots: [], sessionId: "test", sessionState: json(o.state) } as unknown as Fields;
    const call = new Call(start, o.send ?? (() => {}), this.stateDir, ["tool_calls"]);
    const r: any = await this.run(call, name, JSON.stringify(args));
    if (r.error) throw new ToolError(kinds[r.error.kind] as Kind, r.error.message, { data: r.error.data?.length ? JSON.parse(text(r.error.data)) : undefined });
    return { ...r, data: r.data.length ? JSON.parse(text(r.data)) : undefined };
  }

  /** Configures the plugin in process, for tests. It returns the diagnostics. */
  async configure(config: object = {}, stateDir = ""): Promise<any[]> {
    return (await this.serveConfigure({ config: json(config), stateDir, outputBytes: 0n, hostVersion: "" } as unknown as Fields)).diagnostics;
  }

  private async describe(request: Fields): Promise<object> {
    this.host = request.capabilities;
    const o = this.options;
    if (o.discover && this.configured) this.tools = new Map((await o.discover()).map((t) => [t.definition.name, t]));
    return {
      name: o.name, version: o.version, minHostVersion: o.minHostVersion ?? "",
      capabilities: ["calls", ...(o.commands ? ["commands"] : []), ...(o.hook ? ["hooks"] : []), ...(o.discover ? ["discovery"] : [])],
      keeps: o.keeps ?? [],
      configSchema: o.config ? json(objectOf(o.config)) : new Uint8Array(),
      ...(o.needs && {
        needs: {
          read: needs[o.needs.read!] ?? 0, write: needs[o.needs.write!] ?? 0, exec: needs[o.needs.exec!] ?? 0, network: needs[o.needs.network!] ?? 0,
          secrets: Object.entries(o.needs.secrets ?? {}).map(([name, need]) => ({ name, need: needs[need] })),
        },
      }),
      tools: [...this.tools.values()].map(({ definition: d, schema }) => ({
        name: d.name, description: d.description, inputSchema: json(schema), outputSchema: json(d.output), category: "custom", version: d.version ?? "",
        traits: { readOnly: d.readOnly, concurrencySafe: d.concurrencySafe, dangerous: d.dangerous, idempotent: d.idempotent, cacheable: d.cacheable, disabled: d.disabled },
        examples: d.examples ?? [], stdinParameter: d.stdinParameter ?? "", defaultTimeoutMs: BigInt(d.defaultTimeoutMs ?? 0), title: d.title ?? "", deprecated: d.deprecated ?? "",
        varying: d.varying ?? [], unordered: d.unordered ?? [], keywords: d.keywords ?? [], role: d.role ?? "", ...(d.program && { program: d.program }),
      })),
    };
  }

  private async serveConfigure(request: Fields): Promise<{ diagnostics: object[] }> {
    try {
      const config = complete(JSON.parse(text(request.config) || "{}"), objectOf(this.options.config ?? {}));
      this.stateDir = request.stateDir;
      await this.options.configure?.(config, { stateDir: request.stateDir, outputBytes: Number(request.outputBytes), hostVersion: request.hostVersion });
      this.configured = true;
      return { diagnostics: [] };
    } catch (e) {
      if (!(e instanceof ConfigError || e instanceof Violation || e instanceof SyntaxError)) log.error(`the configuration failed: ${e}`, { stack: (e as Error).stack });
      const at = e instanceof ConfigError || e instanceof Violation ? e.path : [];
      return { diagnostics: [{ severity: 1, summary: (e as Error).message || "The configuration is refused.", detail: e instanceof ConfigError ? e.detail : "", path: at.map(String) }] };
    }
  }

  private async run(call: Call, name: string, raw: string): Promise<object> {
    try {
      const tool = this.tools.get(name);
      if (!tool) throw new ToolError("not_found", `Plugin ${this.options.name} has no tool ${name}. It has ${[...this.tools.keys()].join(", ")}.`);
      const r = await tool.run(call, argumentsOf(raw, tool.schema));
      const result = typeof r === "object" && r !== null ? (r as Result) : { output: r === undefined ? "" : String(r) };
      if (result.sessionState !== undefined && tool.definition.readOnly) {
        log.warn(`the read-only tool ${name} returned session state, which hosts ignore`);
        result.sessionState = undefined;
      }
      return messageOf(result);
    } catch (e) {
      return { error: failure(call.signal.aborted && (e as Error)?.name === "AbortError" ? call.signal.reason : e, `Tool ${name}`) };
    }
  }

  // inParts announces a large result and sends it in parts. It returns the result that ends the call.
  private async inParts(call: Call, result: any, emit: (event: any) => void): Promise<object> {
    const values = [result.output, result.title, result.metadata, result.data, result.error?.message, result.error?.data, ...(result.attachments ?? []).map((a: any) => a.content)];
    if (!this.host.includes("large_results") || values.reduce((n, v) => n + (v?.length ?? 0), 0) <= largeSize) return result;
    try {
      const encoded = encodeResult(result);
      await call.announce(encoded.length);
      for (let i = 0; i < encoded.length; i += partSize) emit({ case: "resultPart", value: encoded.subarray(i, i + partSize) });
      return {};
    } catch (e) {
      return { error: failure(e, `Sending the result of ${call.tool}`) };
    }
  }

  // begin begins a call. The function send gets its events, and its result last.
  private begin(start: Fields, send: (event: any) => void): Call {
    let ended = false;
    const emit = (event: any) => {
      if (ended) return;
      ended = event.case === "result";
      send(event);
    };
    const call = new Call(start, emit, this.stateDir, this.host);
    const finish = (value: object) => {
      emit({ case: "result", value });
      if (this.calls.delete(call) && !this.calls.size) for (const done of this.idle.splice(0)) done();
    };
    if (this.draining) {
      finish({ error: { kind: kinds.indexOf("unavailable"), message: "The plugin is being replaced. Call again." } });
      return call;
    }
    this.calls.add(call);
    call.signal.addEventListener("abort", () => {
      setTimeout(() => finish({ error: { kind: kinds.indexOf(call.reason), message: "The tool did not stop when it was told to." } }), cancelGrace).unref();
    });
    void this.run(call, start.tool, text(start.arguments)).then((result) => this.inParts(call, result, emit)).then(finish);
    return call;
  }

  private serveCall(stream: grpc.ServerDuplexStream<Fields, object>): void {
    let call: Call | undefined;
    stream.on("data", ({ message: m }: Fields) => {
      if (m.case !== "start") return hear(call, m);
      call ??= this.begin(m.value, (event) => {
        stream.write({ message: event });
        if (event.case === "result") stream.end();
      });
    });
    stream.on("cancelled", () => call?.cancel("canceled"));
    stream.on("error", () => call?.cancel("canceled"));
  }

  // serveCalls serves a stream with any number of calls, which the host numbers.
  private serveCalls(stream: grpc.ServerDuplexStream<Fields, object>): void {
    const calls = new Map<bigint, Call>();
    stream.on("data", ({ call: id, message }: Fields) => {
      const m = message?.message;
      if (m?.case !== "start") return m && hear(calls.get(id), m);
      let ended = false;
      const call = this.begin(m.value, (event) => {
        stream.write({ call: id, message: { message: event } });
        ended = event.case === "result";
        if (ended) calls.delete(id);
      });
      if (!ended) calls.set(id, call);
    });
    const abandon = () => { for (const call of calls.values()) call.cancel("canceled"); };
    stream.on("end", () => { abandon(); stream.end(); });
    stream.on("cancelled", abandon);
    stream.on("error", abandon);
  }

  private async health(request: Fields): Promise<object> {
    if (request.tool && !this.tools.has(request.tool)) return { status: 3, message: `there is no tool ${request.tool}` };
    const problem = await this.options.health?.(request.tool);
    return problem ? { status: 2, message: problem } : { status: 1 };
  }

  private async hook(request: Fields): Promise<object> {
    const a = (await this.options.hook?.(request)) ?? {};
    return {
      decision: a.decision === "deny" ? 1 : a.decision === "ask" ? 2 : 0, reason: a.reason ?? "", arguments: json(a.arguments),
      ...(a.result && { result: messageOf(a.result) }),
    };
  }

  private async drain(request: Fields): Promise<object> {
    this.draining = true;
    const grace = Number(request.graceMs);
    if (await this.quiet(grace)) return { canceled: 0 };
    const canceled = this.calls.size;
    for (const call of this.calls) call.cancel("unavailable");
    await this.quiet(cancelGrace + 500);
    return { canceled };
  }

  // quiet waits until no call runs, at most for some milliseconds (0: without a limit).
  private quiet(limit: number): Promise<boolean> {
    if (!this.calls.size) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = limit > 0 ? setTimeout(() => resolve(false), limit) : undefined;
      this.idle.push(() => { clearTimeout(timer); resolve(true); });
    });
  }

  private async end(): Promise<void> {
    setTimeout(() => process.exit(1), 1800);
    for (const call of this.calls) call.cancel("unavailable");
    await this.quiet(1000);
    await this.options.close?.();
    process.exit(0);
  }

  /** Serves the plugin until the host ends it. */
  serve(): void {
    if (process.env.TOOLHOST_PLUGIN !== "6b1f4f4c-toolhost-plugin") {
      console.error(`${this.options.name} is a plugin for toolhost, which starts it: name it in a plugin block of toolhost.hcl.`);
      process.exit(1);
    }
    process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write; // standard output is for the handshake
    process.on("SIGTERM", () => void this.end());
    if (process.env.TOOLHOST_LIFELINE_FD) {
      const lifeline = new net.Socket({ fd: Number(process.env.TOOLHOST_LIFELINE_FD), readable: true, writable: false });
      delete process.env.TOOLHOST_LIFELINE_FD;
      lifeline.on("close", () => void this.end()).on("error", () => {}).resume();
    }
    if (process.env.TOOLHOST_WAIT_FOR_DEBUGGER) {
      inspector.open(0, "127.0.0.1");
      log.warn(`waiting for a debugger at ${inspector.url()}`);
      inspector.waitForDebugger();
    }
    const server = new grpc.Server({ "grpc.max_receive_message_length": 64 << 20, "grpc.max_send_message_length": 64 << 20 });
    const unary = (f: (r: Fields) => Promise<object>): grpc.handleUnaryCall<Fields, object> => (call, done) => {
      f(call.request).then((m) => done(null, m), (e) => done({ code: grpc.status.INTERNAL, details: String(e?.message ?? e) }));
    };
    const method = (name: string, request: string, response: string, streams = false): grpc.MethodDefinition<any, any> => ({
      path: `/toolhost.v2.PluginService/${name}`, requestStream: streams, responseStream: streams,
      requestSerialize: serialize(request), requestDeserialize: deserialize(request), responseSerialize: serialize(response), responseDeserialize: deserialize(response),
    });
    server.addService({
      Describe: method("Describe", "DescribeRequest", "DescribeResponse"), Configure: method("Configure", "ConfigureRequest", "ConfigureResponse"),
      Health: method("Health", "HealthRequest", "HealthResponse"), Drain: method("Drain", "DrainRequest", "DrainResponse"),
      Hook: method("Hook", "HookRequest", "HookResponse"), Call: method("Call", "CallRequest", "CallResponse", true),
      Calls: method("Calls", "CallsRequest", "CallsResponse", true),
    }, {
      Describe: unary((r) => this.describe(r)), Configure: unary((r) => this.serveConfigure(r)), Health: unary((r) => this.health(r)),
      Drain: unary((r) => this.drain(r)), Hook: unary((r) => this.hook(r)), Call: (stream: grpc.ServerDuplexStream<Fields, object>) => this.serveCall(stream),
      Calls: (stream: grpc.ServerDuplexStream<Fields, object>) => this.serveCalls(stream),
    });
    const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR ?? "", "plugin.sock");
    server.bindAsync("unix:" + socket, grpc.ServerCredentials.createInsecure(), (e) => {
      if (e) throw e;
      fs.writeSync(1, `1|2|unix|${socket}|grpc|\n`);
    });
  }
}

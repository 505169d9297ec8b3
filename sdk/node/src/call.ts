import * as path from "node:path";
import { ToolError, type Kind } from "./error.js";
import { Store } from "./store.js";
import { json, text, type Fields } from "./wire.js";

export const outcomes = ["declined", "accepted", "declined", "unavailable", "timeout"] as const;

/** A file that a call read or changed. */
export interface Effect {
  operation: "read" | "create" | "modify" | "delete";
  path: string;
  mtimeNs: bigint;
  size: bigint;
  /** SHA-256 of the whole content. */
  hash: Uint8Array;
  hashBefore?: Uint8Array;
  partial?: boolean;
}

/** The result of a call that is more than a text. */
export interface Result {
  output?: string;
  /** Structured data, which satisfies the tool's output schema. */
  data?: unknown;
  title?: string;
  metadata?: Record<string, unknown>;
  attachments?: { type: "file" | "image"; path?: string; mediaType?: string; content?: Uint8Array }[];
  effects?: Effect[];
  /** The new state of the session, any JSON value. A read-only tool cannot set it. */
  sessionState?: unknown;
  cwd?: string;
}



/** Writes a line in the form that hosts parse. */
export function write(level: string, message: string, fields: Record<string, unknown> = {}): void {
  process.stderr.write(JSON.stringify({ ...fields, "@level": level, "@message": message }) + "\n");
}

/** The plugin's log. Call.log adds the fields of the call. */
export const log = logger({});

function logger(common: Record<string, unknown>) {
  const at = (level: string) => (message: string, fields: Record<string, unknown> = {}) => write(level, message, { ...common, ...fields });
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** One call, as its handler sees it. */
export class Call {
  readonly id: string;
  readonly tool: string;
  readonly sessionId: string;
  /** The working directory. Relative paths in the arguments begin there. */
  readonly cwd: string;
  readonly roots: { path: string; writable: boolean }[];
  /** Is aborted when the call is canceled or its time is over. Pass it on to what the handler awaits. */
  readonly signal: AbortSignal;
  /** How commands of the call reach the host's tools; undefined if they cannot. */
  readonly commands?: { dir: string; address: string; token: string };
  readonly log: ReturnType<typeof logger>;
  reason: Kind = "canceled";
  private readonly controller = new AbortController();
  private readonly raw: Uint8Array;
  private readonly waiting = new Map<number, (answer: Fields | undefined) => void>();
  private lastId = 0;

  constructor(start: Fields, private readonly send: (message: object) => void, private readonly stateDir: string, private readonly host: string[]) {
    this.id = start.callId ?? "";
    this.tool = start.tool ?? "";
    this.sessionId = start.sessionId ?? "";
    this.cwd = start.cwd ?? "";
    this.roots = start.roots ?? [];
    this.commands = start.commands;
    this.raw = start.sessionState ?? new Uint8Array();
    this.signal = this.controller.signal;
    this.log = logger({ tool: this.tool, call: this.id, session: this.sessionId });
  }

  cancel(reason: Kind): void {
    if (this.signal.aborted) return;
    this.reason = reason;
    this.controller.abort(new ToolError(reason, "The call was ended before it was done."));
    for (const answered of this.waiting.values()) answered(undefined);
    this.waiting.clear();
  }

  answered(id: number, answer: Fields): void {
    this.waiting.get(id)?.(answer);
    this.waiting.delete(id);
  }

  /** Returns the session's state that an earlier result stored. */
  state<T>(): T | undefined {
    return this.raw.length ? JSON.parse(text(this.raw)) : undefined;
  }

  /** Returns the plugin's persistent values. */
  store(): Store {
    if (!this.stateDir) throw new ToolError("unavailable", "The plugin has no state directory. In a test, call plugin.configure first.");
    return new Store(path.join(this.stateDir, "store"));
  }

  progress(title: string, metadata?: Record<string, unknown>): void {
    this.send({ case: "progress", value: { title, metadata: json(metadata) } });
  }

  /** Reports how much of the work is done: done of total. */
  progressOf(title: string, done: number, total?: number): void {
    this.progress(title, { progress: done, ...(total ? { total } : {}) });
  }

  /** Sends a part of the tool's output. The result must be complete without it. */
  output(chunk: string | Uint8Array, stderr = false): void {
    const b = Buffer.from(chunk as string);
    for (let i = 0; i < b.length; i += 256 << 10) {
      this.send({ case: "output", value: { stream: stderr ? 2 : 1, chunk: b.subarray(i, i + (256 << 10)) } });
    }
  }

  /** Asks the user. Without options the answer is free text. */
  async question(question: string, options: string[] = [], multiple = false): Promise<{ outcome: string; values: string[] }> {
    const a = await this.ask({ case: "question", value: { text: question, options, multiple, freeText: !options.length } });
    return { outcome: outcomes[a.outcome] ?? "declined", values: a.values };
  }

  /** Asks for a permission, and throws if it is not given. */
  async permit(kind: string, title: string, patterns: string[] = []): Promise<void> {
    const a = await this.ask({ case: "permission", value: { kind, title, patterns } });
    if (a.outcome !== 1) throw new ToolError("permission_denied", `The permission ${kind} was refused for ${JSON.stringify(title)}: ${a.message || "declined"}`);
  }

  /** Returns the states of files when the session last read or wrote them; only those that it knows. */
  async fileStates(...paths: string[]): Promise<Fields[]> {
    const m = await this.exchange((id) => ({ case: "fileStateQuery", value: { id, paths } }));
    return m.states;
  }

  /** Calls another tool of the host. The operator must permit it (calls in the plugin's block). Throws if the tool fails. */
  async callTool(name: string, args: object = {}): Promise<{ output: string; data?: any; title?: string; metadata: Record<string, any> }> {
    if (!this.host.includes("tool_calls")) throw new ToolError("permission_denied", "This version of the host does not let plugins call tools.");
    const a = await this.ask({ case: "toolCall", value: { tool: name, arguments: json(args) } });
    if (a.outcome !== 1) throw new ToolError("permission_denied", `The host does not call ${name} for this plugin: ${a.message || "declined"}`);
    const r = JSON.parse(text(a.content));
    if (r.error) throw new ToolError(r.error.kind, r.error.message, { code: r.error.code, retryAfter: r.error.retry_after, data: r.error.data });
    return r;
  }

  /** Waits until the host has room for a result of a plugin that is this large when it is encoded. */
  async announce(bytes: number): Promise<void> {
    const a = await this.ask({ case: "announce", value: { bytes: BigInt(bytes) } });
    if (a.outcome !== 1) throw new ToolError("execution_failed", `The result of ${bytes} bytes was not sent: ${a.message}`);
  }

  private ask(ask: object): Promise<Fields> {
    return this.exchange((id) => ({ case: "ask", value: { id, ask } }));
  }

  private exchange(message: (id: number) => object): Promise<Fields> {
    this.signal.throwIfAborted();
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, (answer) => (answer ? resolve(answer) : reject(this.signal.reason)));
      this.send(message(id));
    });
  }
}

import { ToolError } from "./error.js";

/** A JSON Schema. */
export type Schema = Record<string, any>;

/** A parameter of the type T. Present is true if the handler always gets it: it is required, or has a default. */
export interface Param<T, Present extends boolean = boolean> {
  schema: Schema;
  /** Whether callers must give it. */
  required: boolean;
  readonly type?: T;
  readonly present?: Present;
}

export type Params = Record<string, Param<any>>;

/** The arguments that a handler receives. */
export type Args<P extends Params> = {
  [K in keyof P as P[K] extends Param<any, true> ? K : never]: P[K] extends Param<infer T> ? T : never;
} & {
  [K in keyof P as P[K] extends Param<any, true> ? never : K]?: P[K] extends Param<infer T> ? T : never;
};

interface Options<T> {
  /** Makes the parameter optional; the host fills it in. */
  default?: T;
  optional?: boolean;
  enum?: readonly T[];
  /** Names the replacement of a parameter that will be removed. */
  deprecated?: string;
  /** The host checks such a path before the call. */
  path?: "read" | "write" | "diff";
  minimum?: number;
  maximum?: number;
}

function param<T>(type: string, description: string, o: Options<T>, more: Schema = {}): Param<T> {
  const { optional, path, deprecated, ...rest } = o;
  const schema: Schema = { type, ...(description ? { description } : {}), ...rest, ...more };
  if (path) schema["x-toolhost-path"] = path;
  if (deprecated !== undefined) {
    schema.deprecated = true;
    schema.description = `${description} Deprecated: ${deprecated}`.trim();
  }
  return { schema, required: !optional && o.default === undefined && deprecated === undefined };
}

type Made<T, O> = Param<T, O extends { default: any } ? true : O extends { optional: true } | { deprecated: string } ? false : true>;

/** Makers of parameters: `p.string("Whom to greet.")`, `p.integer("How often.", { default: 1, minimum: 1 })`. */
export const p = {
  string: <T extends string = string, const O extends Options<T> = {}>(description = "", o: O = {} as O) => param<T>("string", description, o) as Made<O extends { enum: readonly (infer E)[] } ? E : string, O>,
  integer: <const O extends Options<number> = {}>(description = "", o: O = {} as O) => param<number>("integer", description, o) as Made<number, O>,
  number: <const O extends Options<number> = {}>(description = "", o: O = {} as O) => param<number>("number", description, o) as Made<number, O>,
  boolean: <const O extends Options<boolean> = {}>(description = "", o: O = {} as O) => param<boolean>("boolean", description, o) as Made<boolean, O>,
  list: <T, const O extends Options<T[]> = {}>(items: Param<T>, description = "", o: O = {} as O) => param<T[]>("array", description, o, { items: items.schema }) as Made<T[], O>,
  object: <P extends Params, const O extends Options<Args<P>> = {}>(of: P, description = "", o: O = {} as O) => param<Args<P>>("object", description, o, objectOf(of)) as Made<Args<P>, O>,
};

/** Returns the schema of an object with these properties. */
export function objectOf(of: Params): Schema {
  return {
    type: "object",
    properties: Object.fromEntries(Object.entries(of).map(([k, v]) => [k, v.schema])),
    required: Object.keys(of).filter((k) => of[k].required),
    additionalProperties: false,
  };
}

function is(v: unknown, type?: string): boolean {
  switch (type) {
    case undefined: return true;
    case "integer": return Number.isInteger(v);
    case "array": return Array.isArray(v);
    case "object": return typeof v === "object" && v !== null && !Array.isArray(v);
    default: return typeof v === type;
  }
}

/** The first violation of a schema, with the path of the value. */
export class Violation extends Error {
  constructor(message: string, readonly path: string[]) {
    super(message);
  }
}

/** Checks the types of a value and fills in the defaults, at any depth. */
export function complete(v: any, s: Schema, path: string[] = []): any {
  const name = path.join(".") || "the value";
  if (!is(v, s.type)) throw new Violation(`${name} must be of the type ${s.type}`, path);
  if (s.enum && !s.enum.includes(v)) throw new Violation(`${name} must be one of ${s.enum.join(", ")}`, path);
  if (typeof v === "number" && (v < (s.minimum ?? -Infinity) || v > (s.maximum ?? Infinity))) throw new Violation(`${name} is out of range`, path);
  if (s.type === "array" && s.items) return v.map((x: any, i: number) => complete(x, s.items, [...path, String(i)]));
  if (s.type !== "object" || !s.properties) return v;
  const out: Record<string, any> = {};
  for (const k of Object.keys(v)) {
    if (!Object.hasOwn(s.properties, k)) {
      if (s.additionalProperties === false) throw new Violation(`unknown name ${JSON.stringify(k)}`, [...path, k]);
      out[k] = v[k];
    }
  }
  for (const [k, sub] of Object.entries<Schema>(s.properties)) {
    const given = Object.hasOwn(v, k) ? v[k] : structuredClone(sub.default);
    if (given !== undefined) out[k] = complete(given, sub, [...path, k]);
    else if (s.required?.includes(k)) throw new Violation(`missing ${JSON.stringify(k)}`, [...path, k]);
  }
  return out;
}

/** Parses and completes the arguments of a call. */
export function argumentsOf(raw: string, s: Schema): any {
  try {
    return complete(JSON.parse(raw || "{}"), s);
  } catch (e) {
    throw new ToolError("invalid_arguments", `The arguments are not valid: ${(e as Error).message}. Correct them.`);
  }
}

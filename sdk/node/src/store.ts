import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import { ToolError } from "./error.js";

const maxValue = 1 << 20, maxBytes = 64 << 20, maxKeys = 4096;

/**
 * Values that survive restarts, also of a killed plugin. All processes of the plugin share them. Each value is a file that
 * is replaced by renaming; the SDKs for Go and Python use the same files.
 */
export class Store {
  constructor(private readonly dir: string) {}

  private file(key: string): string {
    return path.join(this.dir, createHash("sha256").update(key).digest("hex").slice(0, 32) + ".json");
  }

  /** Returns a value, or undefined if there is none. */
  get<T>(key: string): T | undefined {
    try {
      return JSON.parse(fs.readFileSync(this.file(key), "utf8")).value;
    } catch (e) {
      if ((e as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw e;
    }
  }

  /** Returns the keys that begin with a prefix, sorted. */
  keys(prefix = ""): string[] {
    if (!fs.existsSync(this.dir)) return [];
    return fs.readdirSync(this.dir).filter((n) => n.endsWith(".json"))
      .map((n) => JSON.parse(fs.readFileSync(path.join(this.dir, n), "utf8")).key as string)
      .filter((k) => k.startsWith(prefix)).sort();
  }

  /** Stores a value that JSON can represent. The value undefined removes it. After set, the value survives a failure of the system. */
  set(key: string, value: unknown): void {
    const bytes = Buffer.byteLength(key);
    if (bytes < 1 || bytes > 1024) throw new RangeError("a key of the store must have 1 to 1024 bytes");
    const target = this.file(key);
    fs.mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    if (value === undefined) {
      fs.rmSync(target, { force: true });
      return;
    }
    const content = JSON.stringify({ key, value });
    this.fits(target, Buffer.byteLength(content), Buffer.byteLength(JSON.stringify(value)));
    const temporary = path.join(this.dir, "tmp-" + randomBytes(8).toString("hex"));
    try {
      const fd = fs.openSync(temporary, "wx", 0o600);
      try {
        fs.writeSync(fd, content);
        fs.fsyncSync(fd);
      } finally {
        fs.closeSync(fd);
      }
      fs.renameSync(temporary, target);
    } catch (e) {
      fs.rmSync(temporary, { force: true });
      throw e;
    }
    const dir = fs.openSync(this.dir, "r");
    try {
      fs.fsyncSync(dir);
    } finally {
      fs.closeSync(dir);
    }
  }

  delete(key: string): void {
    this.set(key, undefined);
  }

  private fits(target: string, size: number, value: number): void {
    let total = size, keys = 1;
    for (const name of fs.readdirSync(this.dir)) {
      const other = path.join(this.dir, name);
      const st = fs.statSync(other, { throwIfNoEntry: false });
      if (name.startsWith("tmp-") && st && Date.now() - st.mtimeMs > 3_600_000) fs.rmSync(other, { force: true }); // left by a killed process
      if (!name.endsWith(".json") || other === target) continue;
      total += st?.size ?? 0;
      keys++;
    }
    if (value > maxValue || total > maxBytes || keys > maxKeys) {
      throw new ToolError("execution_failed", `The plugin's store is full: ${keys} values with ${total} bytes. Delete some.`);
    }
  }
}

// Overloads, decorators and everything nested, one to a line.
import { Base } from "./base";

export type Handler<E extends Event = Event> = (event: E) => void;

export interface Options<T> {
  name: string;
  parse(text: string): T;
  parse(text: string, strict: boolean): T | undefined;
}

export enum Level {
  Low,
  High = "high",
}

function sealed(target: Function): void {}

@sealed
export class Widget<T> extends Base implements Options<T> {
  static count = 0;
  #secret = 1;
  name = "widget";

  constructor(private readonly inner: T) {
    super();
  }

  parse(text: string): T;
  parse(text: string, strict: boolean): T | undefined;
  parse(text: string, strict?: boolean): T | undefined {
    return this.inner;
  }

  @logged("x")
  async load<K extends keyof T>(key: K): Promise<T[K]> {
    return this.inner[key];
  }

  *items(): Generator<T> {
    yield this.inner;
  }

  get value(): T {
    return this.inner;
  }

  set value(v: T) {}

  static create<U>(u: U): Widget<U> {
    return new Widget(u);
  }

  protected bound = (x: number): number => x * 2;

  #hidden(): void {}
}

export abstract class Shape {
  abstract area(): number;
}

export namespace Geometry {
  export interface Point {
    x: number;
  }

  export function distance(a: Point, b: Point): number {
    function squared(n: number): number {
      return n * n;
    }
    return squared(a.x - b.x);
  }

  export namespace Inner {
    export class Deep {}
  }
}

export function pick(index: number): string;
export function pick(name: string): number;
export function pick(what: any): any {
  return what;
}

export const double = (x: number) => x * 2;

export async function* stream(): AsyncGenerator<number> {
  yield 1;
}

export default function main(): void {}

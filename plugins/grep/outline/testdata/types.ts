import type { Foo } from './foo';
export interface Shape<T = unknown> extends Base { readonly area: number; scale?(factor: number): T; [key: string]: unknown; (call: string): void; new (x: number): Shape; }
export type Union = | 'a' | { nested: string };
type Generic<T extends keyof U, U> = { [K in T]: U[K] };
export enum Color { Red = 1, 'Dark Green', Blue = Red << 2 }
declare const enum Hidden { A }
declare module 'external' { export function inModule(x: string): void; const ambient: number; }
namespace Outer.Inner { export const inside = 1; export class Nested { } function helper() { } }
declare global { interface Window { custom: string } }
export abstract class Service<T> implements Shape<T> {
  private readonly store = new Map<string, T>();
  static instance?: Service<unknown>;
  declare typed: string;
  @decorated() method<K extends string>(this: Service<T>, key: K): T | undefined { const local = 1; return undefined; }
  abstract area: number;
  abstract compute(): void;
  constructor(private injected: string, public readonly other = 1) { super(); }
  handler = async <R,>(x: R): Promise<R> => x;
  get value(): T { return null!; }
  overload(x: string): void;
  overload(x: number): void;
  overload(x: any) { }
}
export function over(x: string): string;
export function over(x: number): number;
export function over(x: any): any { return x as unknown as string; }
export const typed: Record<string, (x: number) => void> = {}, fn = <T,>(x: T): x is T => true;
export default class extends Service<number> { run() { } }
const assertion = <string>value;
let optional = a?.b ?? c!, satisfied = { a: 1 } satisfies X;
declare function declared(x: unique symbol): asserts x;
declare let ambientLet: string;
export = Shape;
function isString(x: unknown): x is string { return typeof x === "string"; }
abstract class Bare { protected abstract readonly name: string; accessor counter = 0; }

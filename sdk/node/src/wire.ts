// The messages of the protocol, from the descriptors that buf generates from sdk/proto.
import { create, createFileRegistry, fromBinary, toBinary, type DescMessage, type Message } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import descriptors from "./protocol.binpb";

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));

// Fields is a message whose fields are read by name. Unknown fields are ignored.
export type Fields = Message & Record<string, any>;

function schema(name: string): DescMessage {
  const found = registry.getMessage("toolhost.v2." + name);
  if (!found) throw new Error("the protocol has no message " + name);
  return found;
}

export function serialize(name: string): (m: object) => Buffer {
  const s = schema(name);
  return (m) => Buffer.from(toBinary(s, create(s, m as any)));
}

export function deserialize(name: string): (b: Buffer) => Fields {
  const s = schema(name);
  return (b) => fromBinary(s, b) as Fields;
}

export const text = (b: Uint8Array): string => Buffer.from(b).toString("utf8");
export const json = (v: unknown): Uint8Array => (v === undefined ? new Uint8Array() : Buffer.from(JSON.stringify(v)));

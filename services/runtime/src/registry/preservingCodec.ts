/**
 * A codec for messages that are read, changed, and written again. While two versions run, the older version keeps the
 * unknown fields of the newer version, and writes them back.
 */
import {
  frame,
  type MessageContract,
  type MessageType,
  parseSchema,
  parseUnchecked,
  unframe,
} from '@questlog/schemas/topics/contract';
import { type Codec, createCodec, type SchemaRegistry } from './registry.ts';

/** A symbol key survives copies of an object (`{...known}`) and is absent from JSON and from `Object.keys`. */
const UNKNOWN_FIELDS = Symbol('fields of a later version');

/** A schema with all fields of the contract's schema and more. */
interface LaterSchema {
  readonly id: number;
  /** Decodes without validation, because this version cannot judge unknown fields. */
  readonly type: MessageType<unknown>;
  readonly fields: ReadonlySet<string>;
}

/** After it has read a message of a later version, it writes with the latest schema that it has read. */
export async function createPreservingCodec<T>(
  registry: SchemaRegistry,
  contract: MessageContract<T>,
): Promise<Codec<T>> {
  const codec = await createCodec(registry, contract);
  const own = fieldNamesOf(contract.schema);
  const seen = new Map([[codec.schemaId, undefined as LaterSchema | undefined]]);
  let latest: LaterSchema | undefined;
  const laterSchema = async (id: number): Promise<LaterSchema | undefined> => {
    if (seen.has(id)) return seen.get(id);
    const text = await registry.schemaById(id);
    const later = text === undefined ? undefined : parseLaterSchema(contract, own, { id, text });
    seen.set(id, later);
    if (later?.fields.isSupersetOf(latest?.fields ?? own)) latest = later;
    return later;
  };
  return {
    encode: (message) =>
      latest === undefined
        ? codec.encode(message)
        : frame(latest.id, latest.type.toBuffer(mergeUnknownFields(message))),
    decode: async (value) => {
      // Decoded first, because this reports what is wrong with an invalid value.
      const message = await codec.decode(value);
      const framed = value === null ? undefined : unframe(value);
      const later = framed && (await laterSchema(framed.schemaId));
      if (framed !== undefined && later !== undefined)
        attachUnknownFields(message, decodeAllFields(later, framed.body));
      return message;
    },
  };
}

/** Returns undefined if the schema has no additional fields, or cannot represent all messages of the contract. */
function parseLaterSchema(
  { type }: MessageContract<unknown>,
  own: ReadonlySet<string>,
  { id, text }: { readonly id: number; readonly text: string },
): LaterSchema | undefined {
  const fields = fieldNamesOf(text);
  if (fields.size === own.size || !fields.isSupersetOf(own)) return undefined;
  try {
    parseSchema(text).createResolver(type);
    return { id, type: parseUnchecked(text), fields };
  } catch {
    return undefined;
  }
}

/** Returns the fields of all records in the schema, each with the name of its record. */
function fieldNamesOf(schema: string): Set<string> {
  const names = new Set<string>();
  const collect = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    const { name, fields }: { name?: unknown; fields?: unknown } = part;
    if (Array.isArray(fields)) for (const field of fields) names.add(`${name}.${field.name}`);
    for (const inside of Object.values(part)) collect(inside);
  };
  collect(JSON.parse(schema));
  return names;
}

/** Returns undefined if the unknown fields are not valid Avro. The known fields are used anyway. */
function decodeAllFields({ type }: LaterSchema, body: Buffer): unknown {
  try {
    return type.fromBuffer(body);
  } catch {
    return undefined;
  }
}

/** @param complete the same message, decoded with its writer's schema. */
function attachUnknownFields(known: unknown, complete: unknown): void {
  if (Array.isArray(known) && Array.isArray(complete)) {
    for (const [i, one] of known.entries()) attachUnknownFields(one, complete[i]);
  } else if (isRecord(known) && isRecord(complete)) {
    const unknown = Object.entries(complete).filter(([name]) => !Object.hasOwn(known, name));
    if (unknown.length > 0) known[UNKNOWN_FIELDS] = Object.fromEntries(unknown);
    for (const [name, value] of Object.entries(known)) attachUnknownFields(value, complete[name]);
  }
}

function mergeUnknownFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(mergeUnknownFields);
  if (!isRecord(value)) return value;
  const known = Object.entries(value).map(([name, inside]) => [name, mergeUnknownFields(inside)]);
  return { ...Object(value[UNKNOWN_FIELDS]), ...Object.fromEntries(known) };
}

function isRecord(value: unknown): value is Record<string | symbol, unknown> {
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);
}

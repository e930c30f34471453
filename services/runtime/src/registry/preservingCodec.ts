/** Codec for messages that a process reads, changes, and writes. An older process keeps fields that a newer process added. */
import {
  frame,
  type MessageContract,
  type MessageType,
  parseSchema,
  parseUnchecked,
  unframe,
} from '@questlog/schemas/topics/contract';
import { type Codec, createCodec, type SchemaRegistry } from './registry.ts';

/** Symbol key of a message's unknown fields. Copies of a message (`{...known}`) keep symbol keys, and JSON omits them. */
const UNKNOWN_FIELDS = Symbol('fields of a later version');

/** Schema of a later version. The schema has all fields of this version's schema and more fields. */
interface LaterSchema {
  readonly id: number;
  readonly type: MessageType<unknown>;
  readonly fields: ReadonlySet<string>;
}

/** Creates a codec. After the codec has read a message of a later version, the codec writes with the schema of that version. */
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
      const message = await codec.decode(value);
      const framed = value === null ? undefined : unframe(value);
      const later = framed && (await laterSchema(framed.schemaId));
      if (framed !== undefined && later !== undefined)
        attachUnknownFields(message, decodeAllFields(later, framed.body));
      return message;
    },
  };
}

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

/** Returns undefined if the unknown fields are not valid Avro. */
function decodeAllFields({ type }: LaterSchema, body: Buffer): unknown {
  try {
    return type.fromBuffer(body);
  } catch {
    return undefined;
  }
}

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

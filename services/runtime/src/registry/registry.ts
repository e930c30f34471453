/** The schema registry as a port, and the codec that puts messages into Confluent's wire format with its ids. */
import {
  type Compatibility,
  frame,
  type MessageContract,
  type MessageType,
  parseSchema,
  unframe,
} from '@questlog/schemas/topics/contract';
import { Invalid } from '../process/errors.ts';
import { LruMap } from './lruMap.ts';

export interface SchemaRegistry {
  /**
   * Registers the schema under the subject, unless it is known, and returns its id. Only called at a start.
   * @throws StartRefused when the schema is not compatible with those that the subject has, or the registry stays away.
   */
  register(subject: string, schema: string, compatibility: Compatibility): Promise<number>;
  /**
   * The schema's text, or undefined where the registry does not know the id. Cached both ways.
   * @throws Unavailable when the registry does not answer, so that nothing is known of a record with this id.
   */
  schemaById(id: number): Promise<string | undefined>;
}

export interface Codec<T> {
  encode(message: T): Buffer;
  /**
   * @throws Invalid when the bytes are not this message in any registered version; Unavailable when the registry must be
   *   asked for the version and does not answer, which is worth another try.
   */
  decode(value: Buffer | null): T | Promise<T>;
}

export interface OwnCodec<T> extends Codec<T> {
  /** Of the contract's schema, which it writes with. */
  readonly schemaId: number;
}

/** Compiled readers that a process keeps, one a version of a message. */
const MAX_CACHED_READERS = 1_000;

/** A reader of another version's records, or the reason why they can never be read. */
type SchemaReader = { readonly resolver: unknown } | { readonly fault: Invalid };

/** Registers the contract's schema and returns its codec. Ids are cached both ways, failed requests are not. */
export async function createCodec<T>(
  registry: SchemaRegistry,
  contract: MessageContract<T>,
): Promise<OwnCodec<T>> {
  const ownId = await registry.register(contract.subject, contract.schema, contract.compatibility);
  const readers = new LruMap<number, SchemaReader>(MAX_CACHED_READERS);
  const decodeOther = async (schemaId: number, body: Buffer): Promise<T> => {
    const reader = readers.get(schemaId) ?? (await openReader(registry, contract, schemaId));
    readers.set(schemaId, reader);
    if ('fault' in reader) throw reader.fault;
    return parse(contract.type, body, reader.resolver);
  };
  return {
    schemaId: ownId,
    encode: (message) => contract.framed?.(ownId, message) ?? frame(ownId, contract.type.toBuffer(message)),
    decode: (value) => {
      const framed = value === null ? undefined : unframe(value);
      if (framed === undefined) throw new Invalid('the value is not in the registry’s wire format');
      return framed.schemaId === ownId
        ? parse(contract.type, framed.body)
        : decodeOther(framed.schemaId, framed.body);
    },
  };
}

/** @throws Invalid where the id is unknown; the registry caches that for a while. */
async function openReader<T>(
  registry: SchemaRegistry,
  contract: MessageContract<T>,
  schemaId: number,
): Promise<SchemaReader> {
  const written = await registry.schemaById(schemaId);
  if (written === undefined) throw new Invalid(`the registry does not know schema ${schemaId}`);
  try {
    return { resolver: contract.type.createResolver(parseSchema(written)) };
  } catch (cause) {
    return { fault: new Invalid(`schema ${schemaId} cannot be read as ${contract.subject}`, { cause }) };
  }
}

function parse<T>(type: MessageType<T>, body: Buffer, resolver?: unknown): T {
  try {
    return type.fromBuffer(body, resolver);
  } catch (cause) {
    throw new Invalid('the value does not decode by its schema', { cause });
  }
}

/** Interface of a schema registry, and a codec for messages in Confluent's wire format. */
import {
  type Compatibility,
  frame,
  type MessageContract,
  type MessageType,
  parseSchema,
  unframe,
} from '@questlog/schemas/topics/contract';
import type { LogRecord } from '../log/log.ts';
import { BoundedMap } from '../process/boundedMap.ts';
import { Invalid } from '../process/errors.ts';

export interface SchemaRegistry {
  /**
   * Registers the schema under the subject and returns its id. Processes register schemas only when they start.
   * @throws StartRefused if the schema is incompatible with the subject, or if the registry stays unavailable.
   */
  register(subject: string, schema: string, compatibility: Compatibility): Promise<number>;
  /** Returns the text of a schema. Undefined if the id does not exist. @throws Unavailable if the registry does not respond. */
  schemaById(id: number): Promise<string | undefined>;
}

export interface Codec<T> {
  encode(message: T): Buffer;
  /** Decodes a message. @throws Invalid if the bytes are invalid. @throws Unavailable if the registry does not respond. */
  decode(value: Buffer | null): T | Promise<T>;
}

export interface OwnCodec<T> extends Codec<T> {
  readonly schemaId: number;
}

const MAX_CACHED_READERS = 1_000;

type SchemaReader = { readonly resolver: unknown } | { readonly fault: Invalid };

/** Registers the schema of `contract` and returns a codec. The codec also decodes messages of other versions of the schema. */
export async function createCodec<T>(
  registry: SchemaRegistry,
  contract: MessageContract<T>,
): Promise<OwnCodec<T>> {
  const ownId = await registry.register(contract.subject, contract.schema, contract.compatibility);
  const readers = new BoundedMap<number, SchemaReader>(MAX_CACHED_READERS);
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

/** Returns the decoded value of a record. Undefined if the value is invalid. @throws Unavailable if the registry is down */
export async function decodeIfValid<T>(
  codec: Pick<Codec<T>, 'decode'>,
  { value }: Pick<LogRecord, 'value'>,
): Promise<T | undefined> {
  try {
    return await codec.decode(value);
  } catch (error) {
    if (error instanceof Invalid) return undefined;
    throw error;
  }
}

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
    throw new Invalid('the value cannot be decoded with its schema', { cause });
  }
}

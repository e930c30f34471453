/** The schema registry as a port, and the codec that puts messages into Confluent's wire format with its ids. */
import {
  frame,
  type MessageContract,
  type MessageType,
  parseSchema,
  unframe,
} from '@questlog/schemas/topics/contract';
import { Invalid } from '../process/errors.ts';

export interface SchemaRegistry {
  /** The id of the schema under the subject, registered where it is new. */
  register(subject: string, schema: string): Promise<number>;
  /** The schema's text, or undefined where the registry does not know the id. */
  schemaById(id: number): Promise<string | undefined>;
}

export interface Codec<T> {
  encode(message: T): Buffer;
  /** @throws Invalid when the bytes are not this message in any registered version. */
  decode(value: Buffer | null): T | Promise<T>;
}

/** Registers the contract's schema and gives its codec. Ids are cached both ways. */
export async function createCodec<T>(
  registry: SchemaRegistry,
  contract: MessageContract<T>,
): Promise<Codec<T>> {
  const ownId = await registry.register(contract.subject, contract.schema);
  const resolvers = new Map<number, unknown>();
  const decodeOld = async (schemaId: number, body: Buffer): Promise<T> => {
    if (!resolvers.has(schemaId)) resolvers.set(schemaId, await resolverFor(registry, contract, schemaId));
    return parse(contract.type, body, resolvers.get(schemaId));
  };
  return {
    encode: (message) => frame(ownId, contract.type.toBuffer(message)),
    decode: (value) => {
      const framed = value === null ? undefined : unframe(value);
      if (framed === undefined) throw new Invalid('the value is not in the registry’s wire format');
      return framed.schemaId === ownId
        ? parse(contract.type, framed.body)
        : decodeOld(framed.schemaId, framed.body);
    },
  };
}

async function resolverFor<T>(
  registry: SchemaRegistry,
  contract: MessageContract<T>,
  schemaId: number,
): Promise<unknown> {
  const written = await registry.schemaById(schemaId);
  if (written === undefined) throw new Invalid(`the registry does not know schema ${schemaId}`);
  try {
    return contract.type.createResolver(parseSchema(written));
  } catch (cause) {
    throw new Invalid(`schema ${schemaId} cannot be read as ${contract.subject}`, { cause });
  }
}

function parse<T>(type: MessageType<T>, body: Buffer, resolver?: unknown): T {
  try {
    return type.fromBuffer(body, resolver);
  } catch (cause) {
    throw new Invalid('the value does not decode by its schema', { cause });
  }
}

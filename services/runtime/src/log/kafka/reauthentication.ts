/**
 * Mends how kafkajs 2.2.4 shows again who it is (KIP-368) on a connection in use: a request that it has let through, and
 * that is still being compressed when the next one begins to do so, is written into the middle of that, which brokers
 * refuse. Seen with appends to three partitions: one of unknown outcome after a few sessions.
 */
import { createRequire } from 'node:module';

/** For the whole process, once. */
export function mendReauthentication(): void {
  const { prototype } = connection;
  if (isMended.has(prototype)) return;
  isMended.add(prototype);
  const { send } = prototype;
  prototype.send = async function sendEncoded(this: Connection, exchange: Exchange) {
    if (!this.sasl) return send.call(this, exchange);
    const { request } = exchange;
    // From here on nothing is waited for between the look at the session and the write.
    const encoded = await request.encode();
    return send.call(this, { ...exchange, request: { ...request, encode: async () => encoded } });
  };
}

interface Connection {
  /** Null where the broker asks for no proof. */
  readonly sasl: unknown;
  send(exchange: Exchange): Promise<unknown>;
}

interface Exchange {
  readonly request: { encode(): Promise<unknown> };
}

/** Not part of the package's types; the dependency's version is exact. */
const connection: { readonly prototype: Connection } = createRequire(import.meta.url)(
  'kafkajs/src/network/connection',
);

const isMended = new WeakSet<Connection>();

/** Parses Kafka's requests and responses: the end of a frame, the kind of a request, and the brokers' ports. */

/** API keys of the requests that a fault can hit. */
export const APIS = {
  Produce: 0,
  Fetch: 1,
  Metadata: 3,
  OffsetCommit: 8,
  FindCoordinator: 10,
  JoinGroup: 11,
  Heartbeat: 12,
  InitProducerId: 22,
  AddPartitionsToTxn: 24,
  AddOffsetsToTxn: 25,
  EndTxn: 26,
  TxnOffsetCommit: 28,
} as const;
export type Api = keyof typeof APIS;

export interface RequestHead {
  readonly apiKey: number;
  readonly correlationId: number;
}

/** @param frame frame with its length prefix, as everywhere in this file */
export function requestHead(frame: Buffer): RequestHead {
  return { apiKey: frame.readInt16BE(4), correlationId: frame.readInt32BE(8) };
}

/** Returns the correlation id of the request that a response answers. */
export function answeredId(frame: Buffer): number {
  return frame.readInt32BE(4);
}

/**
 * Returns the response with other ports. In each version of the responses that name brokers, a port of four bytes follows the
 * host, so that the rest of the response stays the same if the host does. @param ports new ports by the old ports
 */
export function withPorts(frame: Buffer, host: string, ports: ReadonlyMap<number, number>): Buffer {
  const changed = Buffer.from(frame);
  for (let at = changed.indexOf(host); at !== -1; at = changed.indexOf(host, at + 1)) {
    const place = at + host.length;
    const port = place + 4 > changed.length ? undefined : ports.get(changed.readInt32BE(place));
    if (port !== undefined) changed.writeInt32BE(port, place);
  }
  return changed;
}

/** Splits the bytes of a socket into frames. */
export class FrameCutter {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #needed = LENGTH_BYTES;

  cut(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return [];
    const frames: Buffer[] = [];
    let rest = Buffer.concat(this.#chunks);
    for (;;) {
      this.#needed = LENGTH_BYTES + (rest.length < LENGTH_BYTES ? 0 : rest.readInt32BE(0));
      if (rest.length < this.#needed) break;
      frames.push(rest.subarray(0, this.#needed));
      rest = rest.subarray(this.#needed);
    }
    this.#chunks = [rest];
    this.#bytes = rest.length;
    return frames;
  }
}

const LENGTH_BYTES = 4;

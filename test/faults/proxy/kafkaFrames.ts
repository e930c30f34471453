/** Kafka's requests and answers on a connection: where one ends, what it asks, and the brokers' ports in it. */

/** The protocol's numbers of the requests that a fault may be planned for. */
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

/** @param frame with its length in front, as all here. */
export function requestHead(frame: Buffer): RequestHead {
  return { apiKey: frame.readInt16BE(4), correlationId: frame.readInt32BE(8) };
}

/** The number of the request that it answers. */
export function answeredId(frame: Buffer): number {
  return frame.readInt32BE(4);
}

/**
 * The answer with other ports. In each version of the answers that name brokers, a port of four bytes stands right behind
 * its host: as long as the host stays the same, nothing else of the answer changes.
 * @param ports the new ones by the old ones.
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

/** Cuts what a socket brings into frames. */
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

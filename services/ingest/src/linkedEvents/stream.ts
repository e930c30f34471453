/** One client of the stream of linked events: a tail of the topic, written to its connection no faster than it reads. */
import type { ServerResponse } from 'node:http';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Batch, Log, LogRecord, Tail } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Invalid, messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Codec } from '@questlog/runtime/registry/registry';
import { type ErasedData, isErasedLink } from '@questlog/schemas/erased';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { CursorCipher } from '../core/cursorCipher.ts';
import { type Gap, gapText, heartbeatText, linkedEventText, openingText } from './core/linkedEventText.ts';
import { positionBytes } from './core/streamId.ts';

export interface StreamDeps {
  readonly log: Log;
  readonly codec: Codec<LinkedEvent>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly seal: CursorCipher;
  /** The log has it still. */
  readonly erased: ErasedData;
  readonly heartbeatMs: number;
  /** How often the client's token is looked at while nothing happens. */
  readonly checkMs: number;
  /** A client that takes nothing for so long is dropped. */
  readonly stalledMs: number;
}

export interface StreamClient {
  readonly principal: Principal;
  /** Nothing of it has been sent yet. */
  readonly response: ServerResponse;
  /** Whether the client's token still lets it read. */
  isAllowed(): boolean;
}

export interface LinkedEventStream {
  /** Resolves once the connection is given up and nothing reads the log for it any more; never rejects. */
  readonly ended: Promise<void>;
  /** The client may come back with its token; what it was sent up to then is whole. */
  end(): void;
}

/**
 * Starts a stream. Sends the head of the answer after the log can be read.
 * @param gap time range of the links that expired after the client's position; undefined if none expired.
 * @throws the errors of `log.tail`; nothing was sent then.
 */
export async function startLinkedEventStream(
  deps: StreamDeps,
  client: StreamClient,
  from: readonly number[],
  gap?: Gap,
): Promise<LinkedEventStream> {
  const connection = new Connection(deps, client, from);
  const tail = await deps.log.tail({
    topic: TOPICS.linkedEvents,
    from,
    onBatch: (batch) => connection.writeBatch(batch),
    onTruncated: (partition, offset) => connection.truncate(partition, offset),
  });
  connection.start(tail, gap);
  return connection;
}

/** How long a client waits before it comes back. */
const RETRY_MS = 1_000;

const HEAD = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  // Proxies that gather an answer before they pass it on (nginx) would hold back single messages.
  'X-Accel-Buffering': 'no',
};

class Connection implements LinkedEventStream {
  readonly ended: Promise<void>;
  readonly #deps: StreamDeps;
  readonly #client: StreamClient;
  /** Per partition, what is behind everything that was sent or is not for this client. */
  readonly #nextOffsets: number[];
  /** Time of the last record that was read from each partition. */
  readonly #readToMs: number[] = [];
  readonly #started = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #isOver = false;
  #tail: Tail | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #check: NodeJS.Timeout | undefined;
  #draining: Promise<void> | undefined;
  #stopWaiting: (() => void) | undefined;

  constructor(deps: StreamDeps, client: StreamClient, from: readonly number[]) {
    this.#deps = deps;
    this.#client = client;
    this.#nextOffsets = [...from];
    this.ended = this.#ended.promise;
    client.response.once('close', () => this.#finish());
    client.response.on('error', () => this.#finish());
    // It may have left while this process looked where to begin.
    if (client.response.destroyed) this.#finish();
  }

  start(tail: Tail, gap: Gap | undefined): void {
    const { response } = this.#client;
    this.#tail = tail;
    tail.failed.catch((error: unknown) => {
      const bug = !(error instanceof Unavailable);
      this.#deps.logger.error('linked_event_stream_failed', error, { bug });
      this.end();
    });
    if (this.#isOver) return void this.#closeTail();
    response.writeHead(200, HEAD);
    this.#write(openingText(this.#positionId(), RETRY_MS, gap));
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), this.#deps.heartbeatMs);
    this.#check = setInterval(() => this.#endIfRevoked(), this.#deps.checkMs);
    this.#started.resolve();
  }

  /** Of several partitions at once: their messages take turns wherever the connection is full. */
  async writeBatch({ topic, partition, records, nextOffset, isAfterExpired }: Batch): Promise<void> {
    await this.#started.promise;
    if (isAfterExpired) this.#sendGap(partition, records[0]);
    const last = records.at(-1);
    if (last !== undefined) this.#readToMs[partition] = last.timestampMs;
    for (const record of records) {
      const link = await this.#decodeOwnLink(record, { topic, partition });
      if (link === undefined) continue;
      while (!this.#isOver && this.#client.response.writableNeedDrain) await this.#drained();
      if (this.#isOver) return;
      if (!this.#client.isAllowed()) return void this.end();
      // The position and the message in one go: a token never tells of more than was written before it.
      this.#nextOffsets[partition] = record.offset + 1;
      const showsOverQuota = this.#client.principal.revision === 'A';
      this.#write(linkedEventText(link, { positionId: this.#positionId(), showsOverQuota }));
    }
    this.#nextOffsets[partition] = nextOffset;
  }

  /** Reports records that expired before they were read, because the client or this process was too slow. */
  #sendGap(partition: number, firstKept: LogRecord | undefined): void {
    if (this.#isOver) return;
    const toMs = firstKept?.timestampMs ?? this.#deps.clock.now();
    if (firstKept !== undefined) this.#nextOffsets[partition] = firstKept.offset;
    this.#write(gapText({ fromMs: this.#readToMs[partition], toMs }, this.#positionId()));
  }

  /** The log was cut, and goes on at the offset: a token of what is gone would leave out what comes there now. */
  truncate(partition: number, offset: number): void {
    this.#nextOffsets[partition] = Math.min(this.#nextOffsets[partition] ?? 0, offset);
  }

  end(): void {
    const { response } = this.#client;
    if (this.#isOver) return;
    // A client that reads gets the rest and a clean end; for one that does not, nobody waits.
    if (response.writableNeedDrain) response.destroy();
    else response.end();
    this.#finish();
  }

  /** The record as a link of this client's project. Of other tenants nothing is decoded: the key tells. */
  async #decodeOwnLink(
    record: LogRecord,
    { topic, partition }: { topic: string; partition: number },
  ): Promise<LinkedEvent | undefined> {
    const { tenant, project } = this.#client.principal;
    if (record.key !== tenant.id) return undefined;
    try {
      const link = await this.#deps.codec.decode(record.value);
      const isOwn = link.tenantId === tenant.id && link.projectId === project.id;
      return isOwn && !isErasedLink(this.#deps.erased, link) ? link : undefined;
    } catch (error) {
      // The projector sends it to the dead letters; here it is only not a link.
      if (!(error instanceof Invalid)) throw error;
      const { offset } = record;
      this.#deps.logger.warn('linked_event_skipped', { topic, partition, offset, cause: messageOf(error) });
      return undefined;
    }
  }

  /** Also how a quiet hour is not read again: it moves the client's position past what was not for it. */
  #sendHeartbeat(): void {
    if (!this.#client.response.writableNeedDrain) this.#write(heartbeatText(this.#positionId()));
    if (this.#client.response.writableNeedDrain) void this.#drained();
  }

  /** An idle stream ends too, and one whose client reads nothing. */
  #endIfRevoked(): void {
    if (!this.#client.isAllowed()) this.end();
  }

  /** Resolves when the connection takes more, or never will; gives it up when that takes too long. */
  #drained(): Promise<void> {
    this.#draining ??= this.#nextDrain().finally(() => {
      this.#draining = undefined;
    });
    return this.#draining;
  }

  async #nextDrain(): Promise<void> {
    const { response } = this.#client;
    const { promise, resolve } = Promise.withResolvers<void>();
    response.once('drain', resolve);
    this.#stopWaiting = resolve;
    const stalled = setTimeout(() => {
      this.#deps.logger.info('linked_event_stream_stalled', { projectId: this.#client.principal.project.id });
      this.end();
    }, this.#deps.stalledMs);
    await promise;
    clearTimeout(stalled);
    response.off('drain', resolve);
  }

  #write(text: string | Buffer): void {
    this.#client.response.write(text);
  }

  #positionId(): string {
    return this.#deps.seal.encrypt(
      positionBytes({ logId: this.#deps.log.id, nextOffsets: this.#nextOffsets }),
    );
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#heartbeat);
    clearInterval(this.#check);
    this.#stopWaiting?.();
    this.#started.resolve();
    this.#closeTail();
  }

  /** Not awaited: a batch that is being taken ends the stream too, and the tail waits for that batch. */
  #closeTail(): void {
    if (this.#tail === undefined) return;
    this.#tail.close().then(
      () => this.#ended.resolve(),
      (error: unknown) => {
        this.#deps.logger.error('linked_event_stream_close_failed', error);
        this.#ended.resolve();
      },
    );
  }
}

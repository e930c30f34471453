/** Sends linked events to one client over HTTP. Waits if the client reads slowly. */

import type { ServerResponse } from 'node:http';
import type { CursorCipher } from '@questlog/runtime/cursors/core/cursorCipher';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Batch, Log, LogRecord, Tail } from '@questlog/runtime/log/log';
import type { TruncatedRange, TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import type { Clock } from '@questlog/runtime/process/clock';
import { Invalid, messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { VisibleData } from '@questlog/schemas/visibility';
import { type Gap, gapText, heartbeatText, linkedEventText, openingText } from './core/linkedEventText.ts';
import { positionBytes } from './core/streamId.ts';

export interface StreamDeps {
  readonly log: Log;
  readonly codec: Codec<LinkedEvent>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly cipher: CursorCipher;
  readonly visible: VisibleData;
  readonly heartbeatMs: number;
  readonly checkMs: number;
  readonly stalledMs: number;
}

export interface StreamClient {
  readonly principal: Principal;
  readonly response: ServerResponse;
  isAllowed(): boolean;
}

export interface LinkedEventStream {
  /** Resolves after the connection and the reader of the log are closed. Never rejects. */
  readonly ended: Promise<void>;
  end(): void;
}

/**
 * Starts a stream. `gap` is the time range of the expired records between the client's position and the first record of the
 * log.
 * @throws errors of `log.tail`
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
    onTruncated: (range) => connection.onTruncated(range),
  });
  connection.start(tail, gap);
  return connection;
}

const RETRY_MS = 1_000;

const HEAD = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  // Turns off buffering in proxies such as nginx, because a buffer would delay messages.
  'X-Accel-Buffering': 'no',
};

class Connection implements LinkedEventStream, TruncationParticipant {
  readonly ended: Promise<void>;
  readonly #deps: StreamDeps;
  readonly #client: StreamClient;
  /** For each partition, the offset of the next record. All earlier records were sent to the client or skipped. */
  readonly #nextOffsets: number[];
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
    // Checks the connection once, because the client may have disconnected before the listeners were added.
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
      // Moves the position only after all waits, because a heartbeat during a wait must still contain the previous position.
      this.#nextOffsets[partition] = record.offset + 1;
      const showsOverQuota = this.#client.principal.revision === 'A';
      this.#write(linkedEventText(link, { positionId: this.#positionId(), showsOverQuota }));
    }
    this.#nextOffsets[partition] = nextOffset;
  }

  /** Sends a message about a gap if retention removed records before this stream read them. */
  #sendGap(partition: number, firstKept: LogRecord | undefined): void {
    if (this.#isOver) return;
    const toMs = firstKept?.timestampMs ?? this.#deps.clock.now();
    if (firstKept !== undefined) this.#nextOffsets[partition] = firstKept.offset;
    this.#write(gapText({ fromMs: this.#readToMs[partition], toMs }, this.#positionId()));
  }

  /** Moves the client's position back to the first lost offset, because new records reuse the offsets of lost records. */
  onTruncated({ partition, offset }: TruncatedRange): void {
    this.#nextOffsets[partition] = Math.min(this.#nextOffsets[partition] ?? 0, offset);
  }

  end(): void {
    const { response } = this.#client;
    if (this.#isOver) return;
    // Destroys the connection if the client does not read, because `response.end()` would never finish.
    if (response.writableNeedDrain) response.destroy();
    else response.end();
    this.#finish();
  }

  /** Decodes a record with a link of the client's project. Returns undefined for records of other projects and tenants. */
  async #decodeOwnLink(
    record: LogRecord,
    { topic, partition }: { topic: string; partition: number },
  ): Promise<LinkedEvent | undefined> {
    const { tenant, project } = this.#client.principal;
    if (record.key !== tenant.id) return undefined;
    try {
      const link = await this.#deps.codec.decode(record.value);
      const isOwn = link.tenantId === tenant.id && link.projectId === project.id;
      return isOwn && this.#deps.visible.cached.isVisibleLink(link) ? link : undefined;
    } catch (error) {
      // Skips an invalid record, because the projector writes a dead letter for the record.
      if (!(error instanceof Invalid)) throw error;
      const { offset } = record;
      this.#deps.logger.warn('linked_event_skipped', { topic, partition, offset, cause: messageOf(error) });
      return undefined;
    }
  }

  /** Sends a heartbeat with the current position, so that the client's position also moves past records of other projects. */
  #sendHeartbeat(): void {
    if (!this.#client.response.writableNeedDrain) this.#write(heartbeatText(this.#positionId()));
    if (this.#client.response.writableNeedDrain) void this.#drained();
  }

  #endIfRevoked(): void {
    if (!this.#client.isAllowed()) this.end();
  }

  /** Waits until the connection's buffer has space. Ends the stream if the wait takes longer than `stalledMs`. */
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
    return this.#deps.cipher.encrypt(
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

  /** Closes the reader of the log without waiting. A wait would be a deadlock, because `close` waits for the current batch. */
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

/** Opens and ends the streams that send linked events to clients. Limits the number of open streams. */

import type { CursorCipher } from '@questlog/runtime/cursors/core/cursorCipher';
import type { CursorCiphers } from '@questlog/runtime/cursors/cursorCiphers';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createCodec } from '@questlog/runtime/registry/registry';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { IngestContext } from '../context.ts';
import { limitConcurrency } from '../limits/fairSharing.ts';
import type { Gap } from './core/linkedEventText.ts';
import { expiredPartitions, offsetsFrom, positionIn } from './core/streamId.ts';
import { findGap } from './gap.ts';
import { type LinkedEventStream, type StreamClient, startLinkedEventStream } from './stream.ts';

/** Start of a stream: the oldest linked event (`start`), the next new event (`end`), or the position in a message id. */
export type StartPosition = 'start' | 'end' | { readonly id: string };

export interface LinkedEventStreams {
  /**
   * Opens a stream. Returns undefined if the topic got more partitions after the message id was created.
   * @throws Unavailable if too many streams are open, or if the log does not answer
   */
  open(client: StreamClient, from: StartPosition): Promise<LinkedEventStream | undefined>;
  close(): Promise<void>;
}

export const STREAM_LIMITS = {
  heartbeatMs: 15_000,
  /** Interval in milliseconds at which the access token of a stream is checked. A revocation must take effect within 2 s. */
  checkMs: 1_000,
  /** Time in milliseconds after which a client that does not read is disconnected. */
  stalledMs: 60_000,
  /** Maximum streams per process. A slow stream takes up to 4 MiB per partition. A tenant can use half of the streams. */
  maxStreams: 64,
  /** Maximum number of streams per project, so that one project cannot use all streams of the process. */
  maxStreamsOfProject: 16,
};
export type StreamLimits = Readonly<typeof STREAM_LIMITS>;

/** Seconds in the `Retry-After` header if too many streams are open. The time is long, because a stream rarely ends. */
const FULL_RETRY_AFTER_S = 10;

export async function openLinkedEventStreams(
  context: Omit<IngestContext, 'health' | 'lifecycle'>,
  cursorCiphers: CursorCiphers,
  limits: StreamLimits = STREAM_LIMITS,
): Promise<LinkedEventStreams> {
  const { log, logger, clock, metrics, visible } = context;
  const codec = await createCodec(context.registry, linkedEvents);
  const running = new Set<LinkedEventStream>();
  const acquire = limitConcurrency('linked-event streams', limits.maxStreams, metrics.linkedEventStreams, {
    maxPerProject: limits.maxStreamsOfProject,
    retryAfterS: FULL_RETRY_AFTER_S,
  });
  const streams = { resource: 'linked_event_streams', limit: limits.maxStreams, used: () => running.size };
  metrics.resources.add(streams);
  let isClosed = false;

  return {
    open: async (client, from) => {
      if (isClosed) throw new Unavailable('this process is stopping');
      const { tenant, project } = client.principal;
      // Takes the permit for a stream before the stream starts. Otherwise, concurrent requests could exceed the limit.
      const release = acquire({ tenantId: tenant.id, projectId: project.id });
      try {
        const cipher = await cursorCiphers.for('stream', project.id);
        const start = await startOf(context, client, from, cipher);
        if (start === undefined) {
          release();
          return undefined;
        }
        const stream = await startLinkedEventStream(
          { log, codec, logger, clock, cipher, visible, ...limits },
          client,
          start.offsets,
          start.gap,
        );
        running.add(stream);
        void stream.ended.then(() => {
          running.delete(stream);
          release();
        });
        if (isClosed) stream.end();
        return stream;
      } catch (error) {
        release();
        throw error;
      }
    },
    close: async () => {
      isClosed = true;
      for (const stream of running) stream.end();
      await Promise.all([...running].map(({ ended }) => ended));
    },
  };
}

async function startOf(
  context: Pick<IngestContext, 'log' | 'store' | 'clock'>,
  { principal }: StreamClient,
  requested: StartPosition,
  cipher: CursorCipher,
): Promise<{ offsets: number[]; gap: Gap | undefined } | undefined> {
  const { log } = context;
  const from = typeof requested === 'string' ? requested : positionIn(requested.id, cipher);
  const [startOffsets, endOffsets] = await Promise.all([
    log.startOffsets(TOPICS.linkedEvents),
    log.endOffsets(TOPICS.linkedEvents),
  ]);
  const topic = { logId: log.id, startOffsets, endOffsets };
  const offsets = offsetsFrom(from, topic);
  if (offsets === undefined) return undefined;
  // Returns no gap for a new client, which has not missed any events.
  if (typeof requested === 'string' || from === 'end') return { offsets, gap: undefined };
  const partitions = expiredPartitions(from, topic);
  if (partitions.length === 0) return { offsets, gap: undefined };
  const at = { projectId: principal.project.id, position: from, offsets, partitions };
  return { offsets, gap: await findGap(context, at) };
}

/** The streams of linked events that this process serves: where each begins, how many there may be, and their stop. */
import type { Log } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { IngestMetrics } from '../metrics.ts';
import { offsetsFrom, type StreamPosition } from './core/linkedEventToken.ts';
import { type LinkedEventStream, type StreamClient, startLinkedEventStream } from './stream.ts';

export interface LinkedEventStreams {
  /**
   * Answers the client's request with a stream; resolves once it runs. Undefined: the position is none of this topic's.
   * @throws Unavailable when there are too many, the process stops, or the log cannot be read; nothing was sent then.
   */
  open(client: StreamClient, from: StreamPosition | 'start' | 'end'): Promise<LinkedEventStream | undefined>;
  /** Ends every stream; none begins any more. */
  close(): Promise<void>;
}

export interface LinkedEventStreamsDeps {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
  readonly limits?: StreamLimits;
}

export interface StreamLimits {
  readonly heartbeatMs: number;
  /** A client that takes nothing for so long is dropped. */
  readonly stalledMs: number;
  /** Each reads the whole topic and may hold a batch of every partition (4 MiB each) while its client is slow. */
  readonly maxStreams: number;
  /** So that one project's clients, however many reconnect at once, leave room for the others'. */
  readonly maxStreamsOfProject: number;
}

export const STREAM_LIMITS: StreamLimits = {
  heartbeatMs: 15_000,
  stalledMs: 60_000,
  maxStreams: 64,
  maxStreamsOfProject: 16,
};

/** Streams stay open: a place is not free again soon. */
const FULL_RETRY_AFTER_S = 10;

export async function openLinkedEventStreams(deps: LinkedEventStreamsDeps): Promise<LinkedEventStreams> {
  const { log, logger, metrics, limits = STREAM_LIMITS } = deps;
  const codec = await createCodec(deps.registry, linkedEvents);
  const running = new Set<LinkedEventStream>();
  const places = new Places(limits, (taken) => metrics.linkedEventStreams.set(taken));
  let isClosed = false;

  return {
    open: async (client, from) => {
      if (isClosed) throw new Unavailable('this process is stopping');
      const projectId = client.principal.project.id;
      places.take(projectId);
      try {
        const offsets = await firstOffsets(log, from);
        if (offsets === undefined) {
          places.leave(projectId);
          return undefined;
        }
        const stream = await startLinkedEventStream({ log, codec, logger, ...limits }, client, offsets);
        running.add(stream);
        void stream.ended.then(() => {
          running.delete(stream);
          places.leave(projectId);
        });
        if (isClosed) stream.end();
        return stream;
      } catch (error) {
        places.leave(projectId);
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

/** Taken also by streams that are not answered yet, so that many at once do not all find room. */
class Places {
  readonly #limits: StreamLimits;
  readonly #onChange: (taken: number) => void;
  readonly #byProject = new Map<string, number>();
  #taken = 0;

  constructor(limits: StreamLimits, onChange: (taken: number) => void) {
    this.#limits = limits;
    this.#onChange = onChange;
  }

  /** @throws Unavailable */
  take(projectId: string): void {
    const ofProject = this.#byProject.get(projectId) ?? 0;
    const full = (whose: string, taken: number): Unavailable =>
      new Unavailable(`this process already serves ${taken} streams of linked events${whose}`, {
        retryAfterS: FULL_RETRY_AFTER_S,
      });
    if (ofProject >= this.#limits.maxStreamsOfProject) throw full(' of this project', ofProject);
    if (this.#taken >= this.#limits.maxStreams) throw full('', this.#taken);
    this.#byProject.set(projectId, ofProject + 1);
    this.#onChange(++this.#taken);
  }

  leave(projectId: string): void {
    const left = (this.#byProject.get(projectId) ?? 0) - 1;
    if (left > 0) this.#byProject.set(projectId, left);
    else this.#byProject.delete(projectId);
    this.#onChange(--this.#taken);
  }
}

async function firstOffsets(log: Log, from: StreamPosition | 'start' | 'end'): Promise<number[] | undefined> {
  const [startOffsets, endOffsets] = await Promise.all([
    log.startOffsets(TOPICS.linkedEvents),
    log.endOffsets(TOPICS.linkedEvents),
  ]);
  return offsetsFrom(from, { logId: log.id, startOffsets, endOffsets });
}

/** Loads a server: closed, where each connection waits for its response, or open, where requests are due at a fixed rate. */
import { due } from '../pace.ts';
import { percentile } from './pathFigures.ts';
import { BROKEN, type OnAnswer, RawConnection } from './rawHttp.ts';

export interface Target {
  readonly url: string;
  /** Status that counts as success. */
  readonly status: number;
  /** Requests, sent in turn and repeated. */
  readonly requests: readonly Uint8Array[];
  /** Changes a request before it is sent. */
  readonly renew?: (request: Uint8Array) => void;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly forMs: number;
  /** Called with each response, including responses of the warm-up. */
  readonly onAnswer?: OnAnswer;
}

export interface ClosedFigures {
  readonly answered: number;
  /** Increase of the measured value during the load, without the warm-up. */
  readonly increase: number;
  readonly refused: number;
  /** Requests without a response `TIMED_OUT_AFTER_MS` after the end. */
  readonly timedOut: number;
  readonly tookMs: number;
}

export interface OpenFigures {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly refused: number;
  /** Requests that were not sent or not answered, including requests of broken connections. */
  readonly timedOut: number;
}

const TIMED_OUT_AFTER_MS = 10_000;

/** Loads at full speed. @param measured reads a value, such as the CPU time of the server */
export async function closedLoad(target: Target, measured = () => 0): Promise<ClosedFigures> {
  const count = { answered: 0, refused: 0 };
  const inFlight = new InFlight();
  let next = 0;
  let isOver = false;
  const lanes = Array.from({ length: target.connections }, () => new RawConnection(target.url));
  const sendOn = (lane: RawConnection): void => {
    const request = requestAt(target, next++);
    inFlight.add();
    lane.send(request, (status, head) => {
      target.onAnswer?.(status, head);
      if (status === target.status) count.answered++;
      else count.refused++;
      inFlight.take();
      if (!isOver) sendOn(lane);
    });
  };
  try {
    for (const lane of lanes) sendOn(lane);
    await due(performance.now() + target.warmUpMs);
    const [atStart, before, startedAtMs] = [measured(), { ...count }, performance.now()];
    await due(startedAtMs + target.forMs);
    const increase = measured() - atStart;
    const [after, tookMs] = [{ ...count }, performance.now() - startedAtMs];
    isOver = true;
    const timedOut = await inFlight.left(TIMED_OUT_AFTER_MS);
    return {
      answered: after.answered - before.answered,
      refused: after.refused - before.refused,
      ...{ timedOut, tookMs, increase },
    };
  } finally {
    isOver = true;
    for (const lane of lanes) lane.close();
  }
}

/**
 * Sends requests at a fixed rate. A latency counts from the due time of the request, also if no connection was free, so that a
 * pause of the server delays all requests of the pause. An unanswered request counts with its waiting time.
 */
export async function openLoad(
  target: Target,
  perSecond: number,
  answeredWithinMs = TIMED_OUT_AFTER_MS,
): Promise<OpenFigures> {
  const millis: number[] = [];
  const inFlight = new InFlight();
  /** Due time of each request without a response. */
  const unanswered = new Set<number>();
  let refused = 0;
  const free = Array.from({ length: target.connections }, () => new RawConnection(target.url));
  const lanes = [...free];
  await Promise.all(lanes.map((lane) => lane.connect()));
  const startedAtMs = performance.now();
  const measuredFromMs = startedAtMs + target.warmUpMs;
  const waiting: { dueAtMs: number; request: Uint8Array }[] = [];
  const sendWaiting = (): void => {
    while (free.length > 0 && waiting.length > 0) {
      const [lane, sent] = [free.shift(), waiting.shift()];
      if (lane === undefined || sent === undefined) return;
      lane.send(sent.request, (status, head) => {
        target.onAnswer?.(status, head);
        if (status !== BROKEN) {
          unanswered.delete(sent.dueAtMs);
          if (sent.dueAtMs >= measuredFromMs) {
            millis.push(performance.now() - sent.dueAtMs);
            if (status !== target.status) refused++;
          }
        }
        inFlight.take();
        free.push(lane);
        sendWaiting();
      });
    }
  };
  const requests = Math.ceil(((target.warmUpMs + target.forMs) / 1000) * perSecond);
  for (let i = 0; i < requests; i++) {
    const dueAtMs = startedAtMs + (i * 1000) / perSecond;
    // A timer can fire a fraction of a millisecond early.
    while (dueAtMs > performance.now()) await due(dueAtMs);
    inFlight.add();
    unanswered.add(dueAtMs);
    waiting.push({ dueAtMs, request: requestAt(target, i) });
    sendWaiting();
  }
  await inFlight.left(answeredWithinMs);
  waiting.length = 0;
  for (const lane of lanes) lane.close();
  const left = [...unanswered].filter((dueAtMs) => dueAtMs >= measuredFromMs);
  for (const dueAtMs of left) millis.push(performance.now() - dueAtMs);
  millis.sort((a, b) => a - b);
  const [p50Ms, p99Ms] = [percentile(millis, 0.5), percentile(millis, 0.99)];
  return { p50Ms, p99Ms, refused, timedOut: left.length };
}

function requestAt({ requests, renew }: Target, i: number): Uint8Array {
  const request = requests[i % requests.length] as Uint8Array;
  renew?.(request);
  return request;
}

/** Requests without a response. */
class InFlight {
  #count = 0;
  #onNone: (() => void) | undefined;

  add(): void {
    this.#count++;
  }

  take(): void {
    this.#count--;
    if (this.#count === 0) this.#onNone?.();
  }

  /** Returns the number of remaining requests when all are answered or the time is over. */
  async left(withinMs: number): Promise<number> {
    if (this.#count === 0) return 0;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#onNone = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    return this.#count;
  }
}

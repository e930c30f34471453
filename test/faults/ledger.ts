/** The clients' requests and answers: the truth that the product is checked against afterwards. */
import { createHash } from 'node:crypto';

/** One event as it was sent; nothing else in a run has its payload. */
export interface SentEvent {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  /** Of the payload's bytes. */
  readonly sha256: string;
  /** Its place in what its client sent for its session, from 0 on. */
  readonly sequence: number;
  /** The answered value; undefined without an answer. */
  id: string | undefined;
}

export interface SentRequest {
  readonly key: string | undefined;
  readonly isLenient: boolean;
  readonly body: Buffer;
  /** In the order of the body; a lenient request has a bad element behind them. */
  readonly events: readonly SentEvent[];
}

export class SentLedger {
  readonly requests: SentRequest[] = [];
  readonly sessions = new Map<string, { projectId: string; isAcknowledged: boolean }>();
  readonly bySha256 = new Map<string, SentEvent>();
  /** Whatever a client saw that it must never see. */
  readonly violations: string[] = [];
  retries = 0;
  repeats = 0;

  add(request: SentRequest): void {
    this.requests.push(request);
    for (const event of request.events) this.bySha256.set(event.sha256, event);
  }

  /** The ids of an answer, which an earlier answer to the same request must have given too. */
  acknowledge(request: SentRequest, ids: readonly unknown[]): void {
    if (ids.length !== request.events.length) {
      this.violations.push(`${request.events.length} events were answered with ${ids.length}`);
    }
    for (const [i, event] of request.events.entries()) {
      const id = ids[i];
      if (typeof id !== 'string') continue;
      if (event.id !== undefined && event.id !== id) {
        this.violations.push(`an event was answered as ${event.id} and then as ${id}`);
      }
      event.id = id;
    }
  }

  get acknowledged(): number {
    return this.requests.reduce(
      (sum, { events }) => sum + events.filter(({ id }) => id !== undefined).length,
      0,
    );
  }
}

export function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

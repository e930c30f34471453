/** Records the requests and responses of the clients, against which the product is checked. */
import { createHash } from 'node:crypto';

/** Event as sent; its payload is unique in a run. */
export interface SentEvent {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  /** SHA-256 of the payload's bytes. */
  readonly sha256: string;
  /** Position in the events that its client sent for its session, from 0. */
  readonly sequence: number;
  /** Id of the response. Undefined without a response. */
  id: string | undefined;
}

export interface SentRequest {
  readonly key: string | undefined;
  readonly isLenient: boolean;
  readonly body: Buffer;
  /** Events in the order of the body; a lenient request has an invalid element after them. */
  readonly events: readonly SentEvent[];
}

export class SentLedger {
  readonly requests: SentRequest[] = [];
  readonly sessions = new Map<string, { projectId: string; isAcknowledged: boolean }>();
  readonly bySha256 = new Map<string, SentEvent>();
  /** Violations of the contract that a client observed. */
  readonly violations: string[] = [];
  retries = 0;
  repeats = 0;

  add(request: SentRequest): void {
    this.requests.push(request);
    for (const event of request.events) this.bySha256.set(event.sha256, event);
  }

  /** Records the ids of a response. An earlier response to the same request must have the same ids. */
  acknowledge(request: SentRequest, ids: readonly unknown[]): void {
    if (ids.length !== request.events.length) {
      this.violations.push(`${request.events.length} events got ${ids.length} ids`);
    }
    for (const [i, event] of request.events.entries()) {
      const id = ids[i];
      if (typeof id !== 'string') continue;
      if (event.id !== undefined && event.id !== id) {
        this.violations.push(`a retry returned the id ${id} for event ${event.id}`);
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

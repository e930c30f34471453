/** Writes the JSON of responses that contain events. Copies the payloads as bytes without parsing them. Pure. */

import { ByteWriter } from '@questlog/schemas/byteWriter';
import { type ElementProblem, problemOf } from '@questlog/schemas/http/problem';
import { formatMicros } from '@questlog/schemas/isoTime';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';

export interface AnsweredEvent extends Omit<AcceptedEvent, 'overQuota'> {
  readonly reportIds: readonly string[];
  /** True if the event exceeded the quota. Undefined in API revision B, whose responses do not have this field. */
  readonly overQuota: boolean | undefined;
  /** Link between the event and a bug report. Only a response that lists the events of a report contains links. */
  readonly link?: { readonly state: string; readonly source: string };
}

type Part = string | Buffer;

export function eventArray(events: readonly AnsweredEvent[]): Buffer {
  let bytes = MARGIN_BYTES;
  for (const event of events) bytes += bytesOf(event);
  const out = new EventWriter(bytes);
  out.text('[');
  for (const [i, event] of events.entries()) {
    if (i > 0) out.text(',');
    out.event(event);
  }
  out.text(']');
  return out.written();
}

/** Returns the JSON of a list of events without the surrounding brackets. */
export function eventList(events: readonly AnsweredEvent[]): Buffer {
  return eventArray(events).subarray(1, -1);
}

export function eventObject(event: AnsweredEvent): Buffer {
  const out = new EventWriter(MARGIN_BYTES + bytesOf(event));
  out.event(event);
  return out.written();
}

/** Returns the JSON `{events, next}`. @param lists non-empty results of `eventList` */
export function eventPage(lists: readonly Buffer[], next: string | null): Buffer {
  const parts = lists.flatMap((list, at) => (at === 0 ? [list] : [',', list]));
  return join(['{"events":[', ...parts, `],"next":${JSON.stringify(next)}}`]);
}

/** Returns the problem document of an element that a lenient request does not store. */
export function problemText(errors: readonly ElementProblem[], requestId: string): string {
  const [first] = errors;
  if (first === undefined) throw new Error('an element without problems has no problem document');
  return JSON.stringify(problemOf(first.code, first.detail, requestId, errors));
}

/** Returns an estimate of the JSON bytes of an event. Most estimates are too high. */
function bytesOf({ eventType, payload }: AnsweredEvent): number {
  return HEAD_BYTES + eventType.length + payload.length;
}

const HEAD_BYTES = 330;
/** Extra bytes of the output buffer, so that a short text can be added without counting its bytes. */
const MARGIN_BYTES = 2 * HEAD_BYTES;

class EventWriter extends ByteWriter {
  readonly #quoted = new Map<string, string>();
  #micros: bigint | undefined;
  #time = '';

  event(event: AnsweredEvent): void {
    const session = event.sessionId === null ? 'null' : `"${event.sessionId}"`;
    const build = event.buildId === null ? 'null' : `"${event.buildId}"`;
    const reports = event.reportIds.length === 0 ? '[]' : JSON.stringify(event.reportIds);
    const sequence = event.sequence === null ? '' : `,"sequence":${event.sequence}`;
    const quota = event.overQuota === undefined ? '' : `,"overQuota":${event.overQuota}`;
    const link = event.link === undefined ? '' : `,"link":${JSON.stringify(event.link)}`;
    this.text(
      `{"id":"${event.id}","sessionId":${session},"buildId":${build},"eventType":${this.#type(event.eventType)},` +
        `"occurredAt":"${this.#timeOf(event.occurredAt)}"${sequence},"payload":`,
    );
    this.bytes(event.payload);
    this.text(`,"reportIds":${reports}${quota}${link}}`);
  }

  #type(eventType: string): string {
    let quoted = this.#quoted.get(eventType);
    if (quoted === undefined) {
      quoted = JSON.stringify(eventType);
      this.#quoted.set(eventType, quoted);
    }
    return quoted;
  }

  #timeOf(micros: bigint): string {
    if (micros !== this.#micros) {
      this.#micros = micros;
      this.#time = formatMicros(micros);
    }
    return this.#time;
  }
}

export function join(parts: readonly Part[]): Buffer {
  let bytes = 0;
  for (const part of parts) bytes += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  const whole = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const part of parts) at += typeof part === 'string' ? whole.write(part, at) : part.copy(whole, at);
  return whole;
}

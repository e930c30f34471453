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
  return arrayOf(events, (out, event) => out.event(event));
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

/**
 * Returns the JSON array that answers a lenient request. The array contains the created event or a problem document for each
 * element.
 */
export function lenientArray(
  elements: readonly (AnsweredEvent | readonly ElementProblem[])[],
  requestId: string,
): Buffer {
  return arrayOf(elements, (out, element) => {
    if ('id' in element) out.event(element);
    else out.text(JSON.stringify(elementProblem(element, requestId)));
  });
}

type Element = AnsweredEvent | readonly ElementProblem[];

function arrayOf<T extends Element>(
  elements: readonly T[],
  write: (out: EventWriter, element: T) => void,
): Buffer {
  let bytes = MARGIN_BYTES;
  for (const element of elements) bytes += bytesOf(element);
  const out = new EventWriter(bytes);
  out.text('[');
  for (let i = 0; i < elements.length; i++) {
    if (i > 0) out.text(',');
    const element = elements[i];
    if (element !== undefined) write(out, element);
  }
  out.text(']');
  return out.written();
}

/** Returns an estimate of the JSON bytes of an event or a problem document. Most estimates are too high. */
function bytesOf(element: Element): number {
  return 'id' in element ? HEAD_BYTES + element.eventType.length + element.payload.length : HEAD_BYTES;
}

const HEAD_BYTES = 330;
/** Extra bytes of the output buffer, so that a short text can be added without counting its bytes. */
const MARGIN_BYTES = 2 * HEAD_BYTES;

function elementProblem(errors: readonly ElementProblem[], requestId: string): Record<string, unknown> {
  const [first] = errors;
  if (first === undefined) throw new Error('an element without problems has no problem document');
  return problemOf(first.code, first.detail, requestId, errors);
}

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

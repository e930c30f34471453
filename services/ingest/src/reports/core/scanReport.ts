/**
 * Reads the body of a bug report: its events as spans, by the scanner of ingest, so that their payloads stay byte for
 * byte; the small fields beside them as parsed values. Pure.
 */

import { type ScannedArray, scanArray } from '../../events/core/scanBody.ts';
import { decodeString, kindOf, MAX_DEPTH } from '../../events/core/scanElement.ts';
import type { ScannedElement, ValueKind } from '../../events/core/scanned.ts';
import { FAILED, JsonBytes } from '../../events/core/scanValue.ts';

const FIELDS = ['id', 'sessionId', 'occurredAt', 'events', 'eventIds', 'window'] as const;
export type ReportField = (typeof FIELDS)[number];

/** Of bytes of the body; `end` is the first byte behind. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface ScannedReport {
  /** By name; `null` is as if omitted, and `events` stands for its kind only. Of a repeated field the last one counts. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The first of them, up to the cap. */
  readonly events: readonly ScannedElement[];
  /** All of them. */
  readonly eventCount: number;
  /** The member `id` with the comma that it brings: without these bytes the body is the same report that names none. */
  readonly idMember: Span | undefined;
  /** Fields that occur more than once, each named once. */
  readonly repeated: ReadonlySet<ReportField>;
  /** Names inside `window` that occur more than once in it, each once. */
  readonly repeatedInWindow: ReadonlySet<string>;
  /** JSON pointers of the members whose value nests deeper than 64 containers; their values are left out. */
  readonly tooDeep: readonly string[];
}

export type ReportScan =
  | { readonly ok: true; readonly kind: ValueKind; readonly report: ScannedReport }
  /** `detail` is a constant phrase and never quotes the body. */
  | { readonly ok: false; readonly offset: number; readonly detail: string };

/** Scans a whole body, which must be valid UTF-8. Of a body that is no object only the kind is told. */
export function scanReport(body: Buffer, options: { maxEvents: number }): ReportScan {
  const json = new JsonBytes(body);
  const start = json.skipSpace(0);
  const kind = kindOf(json.at(start));
  const report = new FoundReport();
  const end =
    kind === 'object' ? scanMembers(json, start + 1, report, options.maxEvents) : json.skipValue(start);
  if (end !== FAILED) {
    const rest = json.skipSpace(end);
    if (rest === json.end) return { ok: true, kind, report };
    json.fail(rest, 'something follows the document');
  }
  return { ok: false, offset: json.failedAt, detail: json.detail };
}

class FoundReport implements ScannedReport {
  readonly fields: Record<string, unknown> = {};
  events: readonly ScannedElement[] = [];
  eventCount = 0;
  idMember: Span | undefined;
  readonly repeated = new Set<ReportField>();
  readonly repeatedInWindow = new Set<string>();
  readonly tooDeep: string[] = [];
  readonly #seen = new Set<ReportField>();

  note(field: ReportField): void {
    if (this.#seen.has(field)) this.repeated.add(field);
    this.#seen.add(field);
  }

  set(field: ReportField, value: unknown): void {
    if (value === null) delete this.fields[field];
    else this.fields[field] = value;
  }

  setEvents({ elements, count }: Omit<ScannedArray, 'end'>): void {
    this.events = elements;
    this.eventCount = count;
  }
}

/** From behind the opening brace to behind the closing one. */
function scanMembers(json: JsonBytes, i: number, report: FoundReport, maxEvents: number): number {
  i = json.skipSpace(i);
  if (json.at(i) === CLOSE_OBJECT) return i + 1;
  let commaAt = i;
  for (;;) {
    const nameAt = i;
    const nameEnd = json.skipName(i);
    if (nameEnd === FAILED) return FAILED;
    const name = decodeString(json.body, i + 1, nameEnd - 1);
    const valueAt = json.skipColon(nameEnd);
    if (valueAt === FAILED) return FAILED;
    const valueEnd = scanMember(json, valueAt, name, report, maxEvents);
    if (valueEnd === FAILED) return FAILED;
    i = json.skipSpace(valueEnd);
    const byte = json.at(i);
    if (byte === CLOSE_OBJECT) {
      if (name === 'id') report.idMember = { start: commaAt, end: valueEnd };
      return i + 1;
    }
    if (byte !== COMMA) return json.fail(i, 'a comma or the end of the object was expected');
    commaAt = i;
    i = json.skipSpace(i + 1);
    if (name === 'id') report.idMember = { start: nameAt, end: i };
  }
}

function scanMember(
  json: JsonBytes,
  i: number,
  name: string,
  report: FoundReport,
  maxEvents: number,
): number {
  const field = FIELDS.find((one) => one === name);
  if (field !== undefined) report.note(field);
  if (field === 'events' && json.at(i) === OPEN_ARRAY) {
    const found = scanArray(json, i, maxEvents);
    report.set('events', []);
    report.setEvents(found);
    return found.end;
  }
  const end = json.skipValue(i);
  if (end === FAILED) return FAILED;
  const isTooDeep = json.depth > MAX_DEPTH;
  if (isTooDeep) report.tooDeep.push(pointerTo(name));
  if (field === 'events') report.setEvents({ elements: [], count: 0 });
  if (field === 'window' && !isTooDeep) noteRepeated(json, i, report.repeatedInWindow);
  if (field !== undefined)
    report.set(field, isTooDeep ? null : JSON.parse(json.body.toString('utf8', i, end)));
  return end;
}

/** Of a value that was walked over before, so that nothing fails; only an object has names. */
function noteRepeated(json: JsonBytes, i: number, repeated: Set<string>): void {
  if (json.at(i) !== OPEN_OBJECT) return;
  const seen = new Set<string>();
  i = json.skipSpace(i + 1);
  while (json.at(i) === QUOTE) {
    const nameEnd = json.skipName(i);
    const name = decodeString(json.body, i + 1, nameEnd - 1);
    if (seen.has(name)) repeated.add(name);
    seen.add(name);
    i = json.skipSpace(json.skipValue(json.skipColon(nameEnd)));
    if (json.at(i) === COMMA) i = json.skipSpace(i + 1);
  }
}

/** RFC 6901. */
function pointerTo(name: string): string {
  return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

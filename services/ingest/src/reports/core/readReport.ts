/** Turns a scanned body into a bug report, or into the list of all its faults. Pure. */
import { BATCH_CAP } from '@questlog/schemas/http/event';
import { type ElementProblem, type ProblemCode, statusOf } from '@questlog/schemas/http/problem';
import { ReportFields } from '@questlog/schemas/http/report';
import type { ReportWindowMs } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';
import { fieldProblems } from '../../core/fieldProblems.ts';
import { parseOccurredAt } from '../../core/occurredAt.ts';
import { type ObjectScan, type ScannedObject, type Span, scanObject } from '../../core/scanObject.ts';
import { MAX_DEPTH } from '../../core/scanValue.ts';
import { type Draft, readElements } from '../../events/core/envelope.ts';
import { scanArray } from '../../events/core/scanBody.ts';
import type { ScannedElement } from '../../events/core/scanElement.ts';
import { Rejected } from '../../rejected.ts';

export interface ReportDraft {
  /** Null: the server makes it. */
  readonly id: string | null;
  /** Where the body names it. */
  readonly idMember: Span | undefined;
  readonly sessionId: string | null;
  /** Microseconds since the epoch; null: the server's time. */
  readonly occurredAt: bigint | null;
  readonly window: Partial<ReportWindowMs>;
  /** In lower case, each once. */
  readonly eventIds: readonly string[];
  readonly drafts: readonly Draft[];
  readonly problems: readonly ElementProblem[];
}

const validator = Compile(ReportFields);
/** A report has at least one of them. */
const NAMING_FIELDS = ['sessionId', 'events', 'eventIds'] as const;

/** @throws Rejected when the body is no JSON object at all. */
export function readReport(body: Buffer, revision: Revision): ReportDraft {
  const { scanned, inline } = scanReport(body, BATCH_CAP[revision]);
  if (!scanned.ok) throw new Rejected('invalid_json', `at byte ${scanned.offset}: ${scanned.detail}`);
  if (scanned.kind !== 'object') {
    throw new Rejected('invalid_request', `the body is an object, not a value of type ${scanned.kind}`);
  }
  const report = scanned.object;
  const fields = checkedFields(report);
  const events = readElements(body, inline.elements, revision);
  const problems = [
    ...structureProblems(report, inline.count, revision),
    ...fields.problems,
    ...events.problems.map(insideEvents),
  ];
  const { value } = fields;
  const eventIds = [...new Set((value.eventIds ?? []).flatMap(uuidsOf))];
  if (NAMING_FIELDS.every((field) => isEmpty(report, inline.count, field))) {
    problems.push(problem('', 'empty_report', 'a report has a sessionId, events or eventIds'));
  }
  return {
    id: canonicalUuid(value.id ?? '') ?? null,
    idMember: report.idMember,
    sessionId: canonicalUuid(value.sessionId ?? '') ?? null,
    occurredAt: fields.occurredAt,
    window: value.window ?? {},
    eventIds,
    drafts: events.drafts,
    problems,
  };
}

interface InlineEvents {
  /** The first of them, up to the cap. */
  elements: readonly ScannedElement[];
  /** All of them. */
  count: number;
}

/** The events are read by the scanner of ingest, so that their payloads stay byte for byte. */
function scanReport(body: Buffer, maxEvents: number): { scanned: ObjectScan; inline: InlineEvents } {
  const inline: InlineEvents = { elements: [], count: 0 };
  const scanned = scanObject(body, {
    id: 'parsed',
    sessionId: 'parsed',
    occurredAt: 'parsed',
    eventIds: 'parsed',
    window: ['beforeMs', 'afterMs'],
    events: (json, valueAt) => {
      const isArray = json.body[valueAt] === OPEN_ARRAY;
      const found = isArray ? scanArray(json, valueAt, maxEvents) : undefined;
      Object.assign(inline, { elements: found?.elements ?? [], count: found?.count ?? 0 });
      return found?.end ?? json.skipValue(valueAt);
    },
  });
  return { scanned, inline };
}

const OPEN_ARRAY = 0x5b;

/** A problem of an inline event: `index` is its position in `events`, the pointer goes from the body's root. */
export function insideEvents(problem: ElementProblem): ElementProblem {
  return { ...problem, pointer: `/events/${problem.index}${problem.pointer}` };
}

/** 400 wins over 413, which wins over 404; every problem is named whatever the status. */
export function reportVerdict(errors: readonly ElementProblem[]): Rejected {
  const status = [400, 413, 404].find((one) => errors.some(({ code }) => statusOf(code) === one));
  const decisive = errors.filter(({ code }) => statusOf(code) === status);
  const [first] = decisive;
  const codes = new Set(decisive.map(({ code }) => code));
  // Of several kinds of 400 none is the request's; the others have one name each.
  const isOneKind = codes.size === 1 && (status !== 400 || codes.has('empty_report'));
  const code = status === 400 && !isOneKind ? 'invalid_request' : (first?.code ?? 'invalid_request');
  const more = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
  return new Rejected(code, `${first?.detail ?? 'the report is not valid'}${more}; nothing was stored`, {
    errors,
  });
}

function structureProblems(report: ScannedObject, events: number, revision: Revision): ElementProblem[] {
  const cap = BATCH_CAP[revision];
  const found = [...report.repeated].map((pointer) =>
    problem(pointer, 'field_repeated', `${pointer.slice(1).replaceAll('/', '.')} occurs more than once`),
  );
  for (const pointer of report.tooDeep) {
    found.push(problem(pointer, 'nested_too_deep', `a value nests at most ${MAX_DEPTH} levels`));
  }
  if (events > cap) {
    const detail = `events takes at most ${cap} events, this one has ${events}`;
    found.push(problem('/events', 'batch_too_large', detail));
  }
  return found;
}

/** Whatever else stands in a field is not nothing: that it is wrong is a problem of its own. */
function isEmpty(report: ScannedObject, events: number, field: (typeof NAMING_FIELDS)[number]): boolean {
  const { fields, repeated, tooDeep } = report;
  if (repeated.has(`/${field}`) || tooDeep.includes(`/${field}`)) return false;
  const value = fields[field];
  if (value === undefined) return true;
  if (field === 'sessionId' || !Array.isArray(value)) return false;
  return value.length === 0 && (field !== 'events' || events === 0);
}

/** The small fields; what is wrong in one of them leaves it out, so that the others can be judged. */
function checkedFields({ fields }: ScannedObject): {
  value: ReportFields;
  occurredAt: bigint | null;
  problems: ElementProblem[];
} {
  const given = { ...fields, ...('window' in fields ? { window: withoutNulls(fields['window']) } : {}) };
  const problems = validator.Check(given) ? [] : fieldProblems(validator.Errors(given));
  const bad = new Set(problems.map(({ pointer }) => pointer.split('/')[1] ?? ''));
  const good = Object.fromEntries(Object.entries(given).filter(([name]) => !bad.has(name)));
  const value = validator.Check(good) ? good : {};
  (value.eventIds ?? []).forEach((id, i) => {
    if (uuidsOf(id).length === 0) {
      problems.push(problem(`/eventIds/${i}`, 'invalid_uuid', `eventIds.${i} must be a UUID`));
    }
  });
  const parsed = value.occurredAt === undefined ? undefined : parseOccurredAt(value.occurredAt);
  if (parsed?.ok === false) {
    const code = parsed.reason === 'range' ? 'timestamp_out_of_range' : 'invalid_timestamp';
    const detail = 'occurredAt must be an ISO 8601 timestamp in the years 1900 to 2299';
    problems.push(problem('/occurredAt', code, detail));
  }
  return { value, occurredAt: parsed?.ok === true ? parsed.micros : null, problems };
}

/** `null` in an optional field is as if it were omitted. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== null));
}

function uuidsOf(id: unknown): string[] {
  const uuid = typeof id === 'string' ? canonicalUuid(id) : undefined;
  return uuid === undefined ? [] : [uuid];
}

function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

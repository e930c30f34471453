/** Turns a scanned body into a bug report, or into the list of all its faults. Pure. */
import { BATCH_CAP } from '@questlog/schemas/http/event';
import { type ElementProblem, type ProblemCode, statusOf } from '@questlog/schemas/http/problem';
import {
  type AttachmentInput,
  REPORT_LIMITS,
  ReportFields,
  ReportInput,
} from '@questlog/schemas/http/report';
import { MAX_UPLOAD_BYTES_OF_A_REPORT } from '@questlog/schemas/http/upload';
import type { ReportWindowMs } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { MAX_NAMED_EVENTS, type ReportContent } from '@questlog/schemas/topics/reportLinks';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';
import { fieldProblems, timestampProblem } from '../../core/fieldProblems.ts';
import { parseOccurredAt } from '../../core/occurredAt.ts';
import { type ObjectScan, type ScannedObject, type Span, scanObject } from '../../core/scanObject.ts';
import { MAX_DEPTH } from '../../core/scanValue.ts';
import { type UnknownField, unknownFieldProblems, unknownOf } from '../../core/unknownFields.ts';
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
  /** More were named than count: those before the last `MAX_NAMED_EVENTS` are left out. */
  readonly eventIdsTruncated: boolean;
  /** In lower case; it makes a repeat, and the report's id. */
  readonly clientRequestId: string | null;
  readonly buildId: string | null;
  /** The texts of the report; null where it is a bare link. */
  readonly report: ReportTexts | null;
  /** A view of the body's own bytes. */
  readonly context: Buffer | null;
  readonly attachments: readonly AttachmentInput[];
  /** JSON pointers of the first fields that no report has, or no event. */
  readonly unknown: readonly string[];
  readonly drafts: readonly Draft[];
  readonly problems: readonly ElementProblem[];
}

type ReportTexts = Omit<ReportContent, 'namedSessionId' | 'context' | 'attachments'>;

const validator = Compile(ReportFields);
/** A report has at least one of them. */
const NAMING_FIELDS = ['sessionId', 'events', 'eventIds', 'report'] as const;

/** @throws Rejected when the body is no JSON object at all. */
export function readReport(body: Buffer, revision: Revision, isStrict = false): ReportDraft {
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
  const unknown = [...report.unknown, ...inline.unknown.map((field) => insideEvents(field).pointer)];
  if (isStrict) problems.push(...unknownFieldProblems(unknownOf(unknown), ReportInput));
  if (NAMING_FIELDS.every((field) => isEmpty(report, inline.count, field))) {
    problems.push(problem('', 'empty_report', 'a report has a report, a sessionId, events or eventIds'));
  }
  return {
    id: canonicalUuid(value.id ?? '') ?? null,
    idMember: report.idMember,
    sessionId: canonicalUuid(value.sessionId ?? '') ?? null,
    occurredAt: fields.occurredAt,
    window: value.window ?? {},
    eventIds: [...new Set((value.eventIds ?? []).flatMap(uuidsOf))],
    eventIdsTruncated: fields.eventIdsTruncated,
    clientRequestId: canonicalUuid(value.clientRequestId ?? '') ?? null,
    buildId: canonicalUuid(value.buildId ?? '') ?? null,
    report: value.report === undefined ? null : textsOf(value.report),
    context: bytesOf(body, report.spans['context']),
    attachments: value.attachments ?? [],
    unknown,
    drafts: events.drafts,
    problems,
  };
}

function textsOf(report: NonNullable<ReportFields['report']>): ReportTexts {
  const { title, description, severity, reporterType, sourceChannel, fingerprint } = report;
  return {
    title,
    description: description ?? null,
    severity: severity ?? null,
    reporterType: reporterType ?? null,
    sourceChannel: sourceChannel ?? null,
    fingerprint: fingerprint ?? null,
  };
}

function bytesOf(body: Buffer, span: Span | undefined): Buffer | null {
  return span === undefined ? null : body.subarray(span.start, span.end);
}

interface InlineEvents {
  /** The first of them, up to the cap. */
  elements: readonly ScannedElement[];
  /** All of them. */
  count: number;
  unknown: readonly UnknownField[];
}

/** The events are read by the scanner of ingest, so that their payloads stay byte for byte. */
function scanReport(body: Buffer, maxEvents: number): { scanned: ObjectScan; inline: InlineEvents } {
  const inline: InlineEvents = { elements: [], count: 0, unknown: [] };
  const scanned = scanObject(body, {
    ...PARSED,
    window: ['beforeMs', 'afterMs'],
    report: ['title', 'description', 'severity', 'reporterType', 'sourceChannel', 'fingerprint'],
    attachments: ['uploadId', 'attachmentType', 'fileName', 'mimeType', 'sizeBytes'],
    context: 'bytes',
    events: (json, valueAt) => {
      const isArray = json.body[valueAt] === OPEN_ARRAY;
      const found = isArray ? scanArray(json, valueAt, maxEvents) : undefined;
      const { elements = [], count = 0, unknown = [] } = found ?? {};
      Object.assign(inline, { elements, count, unknown });
      return found?.end ?? json.skipValue(valueAt);
    },
  });
  return { scanned, inline };
}

const PARSED = {
  id: 'parsed',
  clientRequestId: 'parsed',
  sessionId: 'parsed',
  buildId: 'parsed',
  occurredAt: 'parsed',
  eventIds: 'parsed',
} as const;
const OPEN_ARRAY = 0x5b;

/** A problem of an inline event: `index` is its position in `events`, the pointer goes from the body's root. */
export function insideEvents<T extends UnknownField>(problem: T): T {
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
  const { start, end } = report.spans['context'] ?? { start: 0, end: 0 };
  if (end - start > REPORT_LIMITS.maxContextBytes) {
    const detail = `context takes at most ${REPORT_LIMITS.maxContextBytes} bytes, this one has ${end - start}`;
    found.push(problem('/context', 'field_too_large', detail));
  }
  return found;
}

/** Whatever else stands in a field is not nothing: that it is wrong is a problem of its own. */
function isEmpty(report: ScannedObject, events: number, field: (typeof NAMING_FIELDS)[number]): boolean {
  const { fields, repeated, tooDeep } = report;
  if (repeated.has(`/${field}`) || tooDeep.includes(`/${field}`)) return false;
  const value = fields[field];
  if (value === undefined || value === '') return true;
  if (field === 'sessionId' || !Array.isArray(value)) return false;
  return value.length === 0 && (field !== 'events' || events === 0);
}

/** The small fields; what is wrong in one of them leaves it out, so that the others can be judged. */
function checkedFields({ fields }: ScannedObject): {
  value: ReportFields;
  occurredAt: bigint | null;
  eventIdsTruncated: boolean;
  problems: ElementProblem[];
} {
  const given = asIfOmitted(fields);
  const eventIds = given['eventIds'];
  const isTooMany = Array.isArray(eventIds) && eventIds.length > MAX_NAMED_EVENTS;
  // A game whose queue outlived a connection names all events of its run in every report.
  const eventIdsTruncated = isTooMany && 'clientRequestId' in given;
  if (isTooMany) given['eventIds'] = eventIds.slice(-MAX_NAMED_EVENTS);
  const problems = validator.Check(given) ? [] : fieldProblems(validator.Errors(given));
  const bad = new Set(problems.map(({ pointer }) => pointer.split('/')[1] ?? ''));
  const good = Object.fromEntries(Object.entries(given).filter(([name]) => !bad.has(name)));
  const value = validator.Check(good) ? good : {};
  if (isTooMany && !eventIdsTruncated) {
    const detail = `eventIds takes at most ${MAX_NAMED_EVENTS} ids, this one has ${eventIds.length}`;
    problems.push(problem('/eventIds', 'batch_too_large', detail));
  }
  problems.push(...valueProblems(value));
  const parsed = value.occurredAt === undefined ? undefined : parseOccurredAt(value.occurredAt);
  if (parsed?.ok === false) {
    problems.push(timestampProblem('occurredAt', parsed.reason));
  }
  return { value, occurredAt: parsed?.ok === true ? parsed.micros : null, eventIdsTruncated, problems };
}

/** What a schema alone does not say. */
function valueProblems({
  id,
  clientRequestId,
  eventIds,
  report,
  attachments = [],
}: ReportFields): ElementProblem[] {
  const found = (eventIds ?? []).flatMap((one, i) =>
    uuidsOf(one).length > 0
      ? []
      : [problem(`/eventIds/${i}`, 'invalid_uuid', `eventIds.${i} must be a UUID`)],
  );
  if (id !== undefined && clientRequestId !== undefined) {
    found.push(
      problem('/id', 'field_invalid', 'id may not stand beside clientRequestId, which makes the id'),
    );
  }
  for (const [name, text] of Object.entries(report ?? {})) {
    if (typeof text === 'string' && !text.isWellFormed()) {
      const detail = `report.${name} holds a surrogate without its other half, which UTF-8 cannot carry`;
      found.push(problem(`/report/${name}`, 'lone_surrogate', detail));
    }
  }
  const { maxDescriptionBytes, maxAttachments } = REPORT_LIMITS;
  const descriptionBytes = Buffer.byteLength(report?.description ?? '');
  if (descriptionBytes > maxDescriptionBytes) {
    const detail = `report.description takes at most ${maxDescriptionBytes} bytes, this one has ${descriptionBytes}`;
    found.push(problem('/report/description', 'field_too_large', detail));
  }
  if (attachments.length > maxAttachments) {
    const detail = `attachments takes at most ${maxAttachments} files, this one has ${attachments.length}`;
    found.push(problem('/attachments', 'batch_too_large', detail));
  }
  const attachedBytes = attachments.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0);
  if (attachedBytes > MAX_UPLOAD_BYTES_OF_A_REPORT) {
    const detail = `the files of a report have at most ${MAX_UPLOAD_BYTES_OF_A_REPORT} bytes together, these have ${attachedBytes}`;
    found.push(problem('/attachments', 'field_too_large', detail));
  }
  return found;
}

/** `null` in an optional field is as if it were omitted, and so is an empty string, which game plugins send. */
function asIfOmitted(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const given = withoutEmpty(fields, []);
  for (const name of ['window', 'report'] as const) {
    if (isObject(given[name])) given[name] = withoutEmpty(given[name], ['title']);
  }
  const { attachments } = given;
  if (Array.isArray(attachments)) {
    given['attachments'] = attachments.map((one: unknown) =>
      isObject(one) ? withoutEmpty(one, ['fileName']) : one,
    );
  }
  return given;
}

/** @param needed of these an empty string is an empty string. */
function withoutEmpty(value: object, needed: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).filter(
      ([name, inner]) => inner !== null && (inner !== '' || needed.includes(name)),
    ),
  );
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function uuidsOf(id: unknown): string[] {
  const uuid = typeof id === 'string' ? canonicalUuid(id) : undefined;
  return uuid === undefined ? [] : [uuid];
}

function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

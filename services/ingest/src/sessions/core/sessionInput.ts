/** Turns a request's body into what a session is registered with, or into the list of all its faults. Pure. */
import { type Build, buildIdOf } from '@questlog/schemas/buildId';
import { type ElementProblem, type ProblemCode, statusOf } from '@questlog/schemas/http/problem';
import { MAX_METADATA_BYTES, SessionInput } from '@questlog/schemas/http/session';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';
import { fieldProblems, timestampProblem } from '../../core/fieldProblems.ts';
import { parseOccurredAt } from '../../core/occurredAt.ts';
import { type ObjectShape, type ScannedObject, scanObject } from '../../core/scanObject.ts';
import { MAX_DEPTH } from '../../core/scanValue.ts';
import { unknownFieldProblems, unknownOf } from '../../core/unknownFields.ts';
import { Rejected } from '../../rejected.ts';

export interface SessionDraft
  extends Omit<SessionRegistered, 'tenantId' | 'projectId' | 'sessionId' | 'registeredAt' | 'lane'> {
  /** Null: the server makes it. */
  readonly id: string | null;
  /** JSON pointers of the first unknown fields. */
  readonly ignored: readonly string[];
}

const SHAPE: ObjectShape = {
  id: 'parsed',
  buildId: 'parsed',
  startedAt: 'parsed',
  build: ['version', 'platform', 'gitCommit', 'channel'],
  player: ['externalId', 'deviceId'],
  metadata: 'bytes',
};
/** An empty string in one of them is as if it were omitted. */
const MAY_BE_EMPTY = ['id', 'buildId', 'startedAt', 'gitCommit', 'channel', 'externalId', 'deviceId'];

const MAX_BODY_BYTES = 1024 * 1024;
const validator = Compile(SessionInput);

/** @throws Rejected naming every bad field. */
export function readSessionInput(body: Buffer, projectId: string, isStrict: boolean): SessionDraft {
  const scanned = scannedBody(body);
  const given = withoutEmpty(scanned.fields);
  const problems = [...structureProblems(scanned), ...loneSurrogates(given)];
  if (isStrict) problems.push(...unknownFieldProblems(unknownOf(scanned.unknown), SessionInput));
  if (!validator.Check(given)) problems.push(...fieldProblems(validator.Errors(given)));
  const bad = new Set(problems.map(({ pointer }) => pointer.split('/')[1] ?? ''));
  const good = Object.fromEntries(Object.entries(given).filter(([name]) => !bad.has(name)));
  const value = validator.Check(good) ? good : {};

  const build = value.build === undefined ? null : { gitCommit: null, channel: null, ...value.build };
  const draft: SessionDraft = {
    id: canonicalUuid(value.id ?? '') ?? null,
    buildId: buildIdIn(value.buildId, build, projectId, problems),
    startedAt: startedAtIn(value.startedAt, problems),
    build,
    playerExternalId: value.player?.externalId ?? null,
    playerDeviceId: value.player?.deviceId ?? null,
    metadata: metadataIn(body, scanned, problems),
    ignored: scanned.unknown,
  };
  if (problems.length > 0) throw verdictOn(problems);
  return draft;
}

function scannedBody(body: Buffer): ScannedObject {
  if (body.length > MAX_BODY_BYTES) {
    throw new Rejected('body_too_large', `a body takes at most ${MAX_BODY_BYTES} bytes here`);
  }
  const scan = scanObject(body, SHAPE);
  if (!scan.ok) throw new Rejected('invalid_json', `at byte ${scan.offset}: ${scan.detail}`);
  if (scan.kind === 'object') return scan.object;
  throw new Rejected('invalid_request', `the body is an object, not a value of type ${scan.kind}`);
}

/** Without the members, at the top and one level below, that are as if they were omitted. */
function withoutEmpty(fields: object): Record<string, unknown> {
  const isGiven = ([name, value]: [string, unknown]): boolean =>
    value !== null && !(value === '' && MAY_BE_EMPTY.includes(name));
  return Object.fromEntries(
    Object.entries(fields)
      .filter(isGiven)
      .map(([name, value]) => [name, isObject(value) ? withoutEmpty(value) : value]),
  );
}

function structureProblems({ repeated, tooDeep }: ScannedObject): ElementProblem[] {
  return [
    ...[...repeated].map((pointer) =>
      problem(pointer, 'field_repeated', `${nameOf(pointer)} occurs more than once`),
    ),
    ...tooDeep.map((pointer) =>
      problem(pointer, 'nested_too_deep', `a value nests at most ${MAX_DEPTH} levels`),
    ),
  ];
}

function loneSurrogates(fields: object, inside = ''): ElementProblem[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    const pointer = `${inside}/${name}`;
    if (isObject(value)) return loneSurrogates(value, pointer);
    if (typeof value !== 'string' || value.isWellFormed()) return [];
    const detail = `${nameOf(pointer)} holds a surrogate without its other half, which UTF-8 cannot carry`;
    return [problem(pointer, 'lone_surrogate', detail)];
  });
}

/** An explicit id beside a build is taken where it is that build's: whoever repeats what it was answered is right. */
function buildIdIn(
  given: string | undefined,
  build: Build | null,
  projectId: string,
  problems: ElementProblem[],
): string | null {
  const named = canonicalUuid(given ?? '') ?? null;
  const own = build === null ? null : buildIdOf(projectId, build);
  if (named !== null && own !== null && named !== own) {
    const detail = `the id of this build is ${own}; send either build or buildId`;
    problems.push(problem('/buildId', 'field_invalid', detail));
  }
  return own ?? named;
}

function startedAtIn(given: string | undefined, problems: ElementProblem[]): bigint | null {
  if (given === undefined) return null;
  const parsed = parseOccurredAt(given);
  if (parsed.ok) return parsed.micros;
  problems.push(timestampProblem('startedAt', parsed.reason));
  return null;
}

function metadataIn(body: Buffer, { spans }: ScannedObject, problems: ElementProblem[]): Buffer | null {
  const span = spans['metadata'];
  if (span === undefined) return null;
  const metadata = body.subarray(span.start, span.end);
  if (metadata.length > MAX_METADATA_BYTES) {
    const detail = `metadata takes at most ${MAX_METADATA_BYTES} bytes, this one has ${metadata.length}`;
    problems.push(problem('/metadata', 'field_too_large', detail));
  }
  return metadata;
}

/** 400 wins over 413; every problem is named whatever the status. */
function verdictOn(errors: readonly ElementProblem[]): Rejected {
  const refusing = errors.find(({ code }) => statusOf(code) === 400) ?? errors[0];
  const code = refusing?.code === 'field_too_large' ? refusing.code : 'invalid_request';
  return new Rejected(code, refusing?.detail ?? 'the body is not valid', { errors });
}

function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

function nameOf(pointer: string): string {
  return pointer.slice(1).replaceAll('/', '.');
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Parses the body of a session registration. Collects all problems of an invalid body. Pure. */

import {
  bodyRejection,
  checkedFields,
  isObject,
  loneSurrogates,
  objectOf,
  problem,
  sizeProblems,
  structureProblems,
  timestampIn,
} from '@questlog/runtime/http/core/fieldProblems';
import { type ObjectShape, type ScannedObject, scanObject } from '@questlog/runtime/http/core/scanObject';
import { unknownFieldProblems, unknownOf } from '@questlog/runtime/http/core/unknownFields';
import { Rejected } from '@questlog/runtime/http/rejected';
import { type Build, buildIdOf } from '@questlog/schemas/buildId';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { MAX_METADATA_BYTES, SessionInput } from '@questlog/schemas/http/session';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';
import { type SentTime, sentTime } from '../../core/clockSkew.ts';

export interface SessionDraft
  extends Omit<SessionRegistered, 'tenantId' | 'projectId' | 'sessionId' | 'registeredAt' | 'lane'> {
  /** Session id in the request. Null if the server must create the id. */
  readonly id: string | null;
  readonly ignored: readonly string[];
  readonly times: readonly SentTime[];
}

const SHAPE: ObjectShape = {
  id: 'parsed',
  buildId: 'parsed',
  startedAt: 'parsed',
  build: ['version', 'platform', 'gitCommit', 'channel'],
  player: ['externalId', 'deviceId'],
  metadata: 'bytes',
};
/** Fields of a session registration in which an empty string means that the field is absent. */
const MAY_BE_EMPTY = ['id', 'buildId', 'startedAt', 'gitCommit', 'channel', 'externalId', 'deviceId'];

const MAX_BODY_BYTES = 1024 * 1024;
const validator = Compile(SessionInput);

/** Parses a session registration. @throws Rejected with a problem for each invalid field */
export function readSessionInput(body: Buffer, projectId: string, isStrict: boolean): SessionDraft {
  if (body.length > MAX_BODY_BYTES) {
    throw new Rejected('body_too_large', `a body may have at most ${MAX_BODY_BYTES} bytes here`);
  }
  const scanned = objectOf(scanObject(body, SHAPE));
  const fields = omitEmpty(scanned.fields);
  const unknown = isStrict ? unknownFieldProblems(unknownOf(scanned.unknown), SessionInput) : [];
  const knownProblems = [...structureProblems(scanned), ...loneSurrogates(fields), ...unknown];
  const { value, problems } = checkedFields(validator, fields, knownProblems);

  const build = value.build === undefined ? null : { gitCommit: null, channel: null, ...value.build };
  const startedAt = timestampIn('startedAt', value.startedAt, problems);
  const draft: SessionDraft = {
    id: canonicalUuid(value.id ?? '') ?? null,
    buildId: buildIdIn(value.buildId, build, projectId, problems),
    startedAt,
    times: sentTime('startedAt', value.startedAt, startedAt),
    build,
    playerExternalId: value.player?.externalId ?? null,
    playerDeviceId: value.player?.deviceId ?? null,
    metadata: metadataIn(body, scanned, problems),
    ignored: scanned.unknown,
  };
  if (problems.length > 0) throw bodyRejection(problems);
  return draft;
}

function omitEmpty(fields: object): Record<string, unknown> {
  const isGiven = ([name, value]: [string, unknown]): boolean =>
    value !== null && !(value === '' && MAY_BE_EMPTY.includes(name));
  return Object.fromEntries(
    Object.entries(fields)
      .filter(isGiven)
      .map(([name, value]) => [name, isObject(value) ? omitEmpty(value) : value]),
  );
}

/** Returns the build id. A request can have both `build` and an equal `buildId`, because clients copy both from responses. */
function buildIdIn(
  buildId: string | undefined,
  build: Build | null,
  projectId: string,
  problems: ElementProblem[],
): string | null {
  const requestedId = canonicalUuid(buildId ?? '') ?? null;
  const derivedId = build === null ? null : buildIdOf(projectId, build);
  if (requestedId !== null && derivedId !== null && requestedId !== derivedId) {
    const detail = `the id of this build is ${derivedId}; send either build or buildId`;
    problems.push(problem('/buildId', 'field_invalid', detail));
  }
  return derivedId ?? requestedId;
}

function metadataIn(body: Buffer, { spans }: ScannedObject, problems: ElementProblem[]): Buffer | null {
  const span = spans['metadata'];
  if (span === undefined) return null;
  const metadata = body.subarray(span.start, span.end);
  problems.push(...sizeProblems('/metadata', metadata.length, MAX_METADATA_BYTES));
  return metadata;
}

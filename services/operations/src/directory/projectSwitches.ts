/** Reads and replaces the switches of a project. During a flood of events, operators reject or sample events with switches. */

import { activeSwitches } from '@questlog/runtime/directory/core/switchEvents';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import {
  bodyRejection,
  fieldProblems,
  loneSurrogates,
  problem,
  timestampIn,
} from '@questlog/runtime/http/core/fieldProblems';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { SwitchesInput, type SwitchInput, type SwitchOutput } from '@questlog/schemas/http/admin';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { formatMicros } from '@questlog/schemas/isoTime';
import type { Project, Switch } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';

export function projectSwitches({ current, change }: DirectoryHandle, clock: Clock) {
  return {
    list: (id: string): TaggedSwitches =>
      withEtag(existingProject(id, current.projects.get(canonicalUuid(id) ?? '')), clock.now()),
    /** @param ifMatch value of the `If-Match` header. An empty value and `*` match every list of switches */
    replace: async (id: string, body: unknown, ifMatch = ''): Promise<TaggedSwitches> => {
      const switches = readSwitches(body, clock.now());
      return await change('project', canonicalUuid(id) ?? '', (known) => {
        const project = existingProject(id, known);
        if (!matchesEtag(ifMatch, withEtag(project, clock.now()).etag)) throw preconditionFailed();
        const entity = { ...project, switches };
        return { entity, answer: withEtag(entity, clock.now()) };
      });
    },
  };
}

export interface TaggedSwitches {
  readonly switches: SwitchOutput[];
  readonly etag: string;
}

function withEtag(project: Project, nowMs: number): TaggedSwitches {
  const switches = toOutput(project, nowMs);
  return { switches, etag: `"${sha256Hex(JSON.stringify(switches)).slice(0, 32)}"` };
}

/**
 * Compares ETags. A list of ETags can be split at commas, because no ETag contains a comma. Unlike RFC 9110 (section 13.1.1), the
 * comparison ignores the prefix `W/`, because compressing proxies add the prefix to the ETag of an unchanged list.
 */
function matchesEtag(header: string, etag: string): boolean {
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return header === '' || tags.some((tag) => tag === '*' || tag === etag);
}

function preconditionFailed(): Rejected {
  return new Rejected(
    'precondition_failed',
    'the switches have changed since the version in If-Match. Nothing was changed. Read the switches again',
  );
}

function existingProject(id: string, project: Project | undefined): Project {
  if (project === undefined) throw new Rejected('not_found', `there is no project ${id}`);
  return project;
}

function toOutput({ switches }: Project, nowMs: number): SwitchOutput[] {
  return activeSwitches(switches, nowMs).map((one) => ({
    ...one,
    until: one.until === null ? null : formatMicros(BigInt(one.until) * 1000n),
  }));
}

const checker = Compile(SwitchesInput);

/** Rejects unknown fields. If a misspelled condition were ignored, the switch would reject too many events. @throws Rejected */
function readSwitches(body: unknown, nowMs: number): Switch[] {
  if (!Array.isArray(body)) throw new Rejected('invalid_request', 'the body must be an array of switches');
  if (!checker.Check(body)) throw bodyRejection(fieldProblems(checker, body));
  const problems: ElementProblem[] = [];
  const switches = body.map((input, i) => switchOf(input, `${i}`, nowMs, problems));
  if (problems.length > 0) throw bodyRejection(problems);
  return switches;
}

function switchOf(input: SwitchInput, at: string, nowMs: number, problems: ElementProblem[]): Switch {
  const { action, sampleRate = null, until, reason } = input;
  const bad = (field: string, detail: string) =>
    problems.push(problem(`/${at}/${field}`, 'field_invalid', detail));
  if (action === 'sample' && sampleRate === null) bad('sampleRate', 'sample needs a sampleRate');
  if (action === 'reject' && sampleRate !== null) bad('sampleRate', 'reject takes no sampleRate');
  const untilMicros = timestampIn(`${at}/until`, until ?? undefined, problems);
  const untilMs = untilMicros === null ? null : Number(untilMicros / 1000n);
  if (untilMs !== null && untilMs <= nowMs) bad('until', 'until must be in the future');
  problems.push(...loneSurrogates(input, `/${at}`));
  return {
    eventType: input.eventType ?? null,
    buildId: canonicalUuid(input.buildId ?? '') ?? null,
    playerShare: input.playerShare ?? null,
    action,
    sampleRate,
    until: untilMs,
    reason,
  };
}

/** What operators turn off or sample in a flood: the switches of a project, kept in the directory with it. */
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import { SwitchesInput, type SwitchInput, type SwitchOutput } from '@questlog/schemas/http/admin';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import type { Project, Switch } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';
import { bodyVerdict, fieldProblems, loneSurrogates, problem, timestampIn } from '../core/fieldProblems.ts';
import { formatMicros } from '../core/occurredAt.ts';
import { switchesAt } from '../limits/core/switchEvents.ts';
import { Rejected } from '../rejected.ts';

export function projectSwitches({ current, change }: DirectoryHandle, clock: Clock) {
  return {
    list: (id: string): SwitchOutput[] =>
      shown(found(id, current.projects.get(canonicalUuid(id) ?? '')), clock.now()),
    replace: async (id: string, body: unknown): Promise<SwitchOutput[]> => {
      const switches = readSwitches(body, clock.now());
      return await change('project', canonicalUuid(id) ?? '', (known) => {
        const entity = { ...found(id, known), switches };
        return { entity, answer: shown(entity, clock.now()) };
      });
    },
  };
}

function found(id: string, project: Project | undefined): Project {
  if (project === undefined) throw new Rejected('not_found', `there is no project ${id}`);
  return project;
}

function shown({ switches }: Project, nowMs: number): SwitchOutput[] {
  return switchesAt(switches, nowMs).map((one) => ({
    ...one,
    until: one.until === null ? null : formatMicros(BigInt(one.until) * 1000n),
  }));
}

const checker = Compile(SwitchesInput);

/** @throws Rejected naming every field that is wrong: a switch that does other than was meant loses events. */
function readSwitches(body: unknown, nowMs: number): Switch[] {
  if (!Array.isArray(body)) throw new Rejected('invalid_request', 'the body is an array of switches');
  if (!checker.Check(body)) throw bodyVerdict(fieldProblems(checker.Errors(body)));
  const problems: ElementProblem[] = [];
  const switches = body.map((input, i) => switchOf(input, `${i}`, nowMs, problems));
  if (problems.length > 0) throw bodyVerdict(problems);
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

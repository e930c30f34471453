/** One game in the tests of links: its records and its expected links. */
import { randomBytes, randomUUID } from 'node:crypto';
import { anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { expect } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import type { LinkBench } from './linkBench.ts';

export class LinkGame {
  readonly tenantId = randomUUID();
  readonly projectId = randomUUID();
  readonly sessionId = randomUUID();
  readonly #bench: LinkBench;

  constructor(bench: LinkBench) {
    this.#bench = bench;
  }

  /** Returns ids of future events, or for a record of events. */
  newIds(count: number, lane = 0): string[] {
    return Array.from({ length: count }, () => eventId(this.#bench.clock.now(), lane, randomBytes(8)));
  }

  eventsOf(
    ids: readonly string[],
    of: { occurredAtMs?: number; isOfSession?: boolean } = {},
  ): EventsAccepted {
    const nowMs = this.#bench.clock.now();
    const { tenantId, projectId } = this;
    const occurredAt = BigInt(of.occurredAtMs ?? nowMs) * 1000n;
    const sessionId = of.isOfSession === false ? null : this.sessionId;
    const events = ids.map((id) => ({ id, occurredAt, sessionId }));
    return anEventsAccepted({ tenantId, projectId, receivedAt: nowMs, revision: 'B', events });
  }

  aReport(of: Partial<ReportLink>): ReportLink {
    const { tenantId, projectId } = this;
    return aReportLink({ tenantId, projectId, receivedAt: this.#bench.clock.now(), ...of });
  }

  aReportOfSession(of: Partial<ReportLink> = {}): ReportLink {
    return this.aReport({ sessionId: this.sessionId, sessionLane: 0, ...of });
  }

  /** Expects exactly these links of the report, and one message of the stream per change. */
  async expectLinks(
    report: ReportLink,
    states: Record<string, string>,
    everLinked = Object.keys(states),
  ): Promise<void> {
    const found = await eventually(
      () => this.#bench.statesOf(report),
      (now) => JSON.stringify(sorted(now)) === JSON.stringify(sorted(states)),
      60_000,
    ).catch(() => this.#bench.statesOf(report));
    expect(sorted(found)).toEqual(sorted(states));
    const stream = await this.#bench.streamOf(this.projectId);
    const told = Map.groupBy(
      stream.filter(({ reportId }) => reportId === report.reportId),
      ({ event }) => event.id,
    );
    const kinds = [...told].map(([id, links]) => [id, links.map(({ kind }) => kind)]);
    const shall = Object.entries(states).flatMap(([id, state]) => {
      if (state.endsWith(' linked')) return [[id, ['linked']]];
      const isTakenBack = state.endsWith(' retracted') && everLinked.includes(id);
      return isTakenBack ? [[id, ['linked', 'unlinked']]] : [];
    });
    expect(Object.fromEntries(kinds)).toEqual(Object.fromEntries(shall));
  }
}

/** Returns the same state for all events. */
export function all(ids: readonly string[], state: string): Record<string, string> {
  return Object.fromEntries(ids.map((id) => [id, state]));
}

function sorted(states: Record<string, string>): [string, string][] {
  return Object.entries(states).toSorted();
}

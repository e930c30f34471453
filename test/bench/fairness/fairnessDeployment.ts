/** The deployment that the bench of fairness loads: ingests and a projector on one Kafka, and tenants of their own. */
import { cpus } from 'node:os';
import type { RateLimits } from '@questlog/schemas/topics/directoryEntry';
import { aProject, eventually, type TestProject } from '../../e2e/builders.ts';
import { due } from '../pace.ts';
import type { BenchStack } from '../path/benchStack.ts';
import { OWN_TREE, openDeployment, type StartedService } from '../path/questlogPeer.ts';
import { headOf, requestOf } from '../path/rawHttp.ts';
import { openTelemetry } from '../telemetry.ts';

export type Tenant = Pick<TestProject, 'tenantId' | 'projectId' | 'token' | 'sessionId' | 'post' | 'get'>;

export interface FairnessDeployment {
  /** Of the first ingest, where events are posted to. */
  readonly url: string;
  /** Of the first ingest. */
  readonly pid: number;
  /** Starts more where fewer run. @returns where events are posted to, of each. */
  ingests(count: number): Promise<string[]>;
  /** Resolves when every ingest knows its limits. */
  tenant(limits?: Partial<RateLimits>): Promise<Tenant>;
  /** Resolves when its events can be read. */
  fill(tenant: Tenant, events: number): Promise<void>;
}

const EVENTS_PATH = '/v1/ingest/events';
const MAX_EVENTS = 500;
/** Of requests that differ: they are sent in turn. */
const POOLED_EVENTS = 20_000;
/** Every ingest knows a change within 2 s. */
const KNOWN_AFTER_MS = 2_500;
const READ_WITHIN_MS = 60_000;

export async function openFairnessDeployment(stack: BenchStack): Promise<FairnessDeployment> {
  const start = openDeployment(stack, { root: OWN_TREE, name: 'fairness' });
  const first = await start('ingest');
  await start('projector');
  const started: StartedService[] = [first];
  return {
    url: first.baseUrl + EVENTS_PATH,
    pid: first.pid,
    ingests: async (count) => {
      while (started.length < count) started.push(await start('ingest'));
      return started.slice(0, count).map(({ baseUrl }) => baseUrl + EVENTS_PATH);
    },
    tenant: async (limits) => {
      const project = await aProject(first.reached, { revision: 'A' });
      if (limits === undefined) return project;
      const path = `/admin/projects/${project.projectId}`;
      const { status, text } = await first.reached.admin('PATCH', path, { limits });
      if (status !== 200) throw new Error(`limits were answered ${status}: ${text()}`);
      await due(performance.now() + KNOWN_AFTER_MS);
      return project;
    },
    fill: async (tenant, events) => {
      for (const body of bodiesOf(events / MAX_EVENTS, MAX_EVENTS, tenant.sessionId)) {
        const { status, text } = await tenant.post(body);
        if (status !== 201) throw new Error(`events were answered ${status}: ${text()}`);
      }
      const one = () => tenant.get('/v1/events?limit=1');
      await eventually(one, ({ status }) => status === 200, READ_WITHIN_MS);
    },
  };
}

/** So many bodies of requests, of so many events each. */
export function bodiesOf(count: number, events: number, sessionId: string): Buffer[] {
  const telemetry = openTelemetry();
  return Array.from({ length: count }, () => telemetry.batch(events, [sessionId]));
}

/** Requests that differ, of so many events each. @param url where events are posted to */
export function writesOf(url: string, { token, sessionId }: Tenant, events: number): Buffer[] {
  const bodies = bodiesOf(POOLED_EVENTS / events, events, sessionId);
  return bodies.map((body) => requestOf(url, token, body));
}

/** The request for a page of a tenant's events. @param url where events are posted to */
export function pageOf(url: string, token: string, limit: number): Buffer {
  return headOf('GET', new URL(`/v1/events?limit=${limit}`, url).href, token);
}

/** @returns what tells the share of all cores that was used since. */
export function watchCores(): () => number {
  const before = coreTimes();
  return () => {
    const after = coreTimes();
    return 1 - (after.idle - before.idle) / (after.all - before.all);
  };
}

function coreTimes(): { readonly idle: number; readonly all: number } {
  let [idle, all] = [0, 0];
  for (const { times } of cpus()) {
    idle += times.idle;
    all += Object.values(times).reduce((sum, millis) => sum + millis, 0);
  }
  return { idle, all };
}

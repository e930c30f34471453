/** Starts the deployment of the fairness benchmark: ingests and a projector on one Kafka, with separate tenants. */
import type { RateLimits } from '@questlog/schemas/topics/directoryEntry';
import { aProject, eventually, type TestProject } from '../../e2e/builders.ts';
import { due } from '../pace.ts';
import type { BenchStack } from '../path/benchStack.ts';
import { OWN_TREE, openDeployment, type StartedService } from '../path/questlogPeer.ts';
import { headOf, requestOf } from '../path/rawHttp.ts';
import { openTelemetry } from '../telemetry.ts';

export type Tenant = Pick<TestProject, 'tenantId' | 'projectId' | 'token' | 'sessionId' | 'post' | 'get'>;

export interface FairnessDeployment {
  /** URL for events of the first ingest. */
  readonly url: string;
  /** Process id of the first ingest. */
  readonly pid: number;
  /** Starts ingests until `count` run. @returns the URL for events of each ingest */
  ingests(count: number): Promise<string[]>;
  /** Creates a tenant. Resolves when every ingest knows the tenant's limits. */
  tenant(limits?: Partial<RateLimits>): Promise<Tenant>;
  /** Resolves when the events can be read. */
  fill(tenant: Tenant, events: number): Promise<void>;
}

const EVENTS_PATH = '/v1/ingest/events';
const MAX_EVENTS = 500;
/** Number of different prebuilt events, sent in turn. */
const POOLED_EVENTS = 20_000;
/** Time after which every ingest knows a change; the directory needs at most 2 s. */
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

/** Returns `count` bodies with `events` events each. */
export function bodiesOf(count: number, events: number, sessionId: string): Buffer[] {
  const telemetry = openTelemetry();
  return Array.from({ length: count }, () => telemetry.batch(events, [sessionId]));
}

/** Returns different requests with `events` events each. @param url URL for events */
export function writesOf(url: string, { token, sessionId }: Tenant, events: number): Buffer[] {
  const bodies = bodiesOf(POOLED_EVENTS / events, events, sessionId);
  return bodies.map((body) => requestOf(url, token, body));
}

/** Returns a request for a page of the tenant's events. @param url URL for events */
export function pageOf(url: string, token: string, limit: number): Buffer {
  return headOf('GET', new URL(`/v1/events?limit=${limit}`, url).href, token);
}

/**
 * Holds projects and tenants to the rates that operators gave them. The buckets are this process's own: each ingest that
 * takes a tenant's requests has an equal share of its rates.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import type { RateLimits, Tenant } from '@questlog/schemas/topics/directoryEntry';
import type { IngestMetrics } from '../metrics.ts';
import { Rejected } from '../rejected.ts';
import { Bucket, neededFor, type Rate } from './core/bucket.ts';

type What = 'events' | 'requests' | 'bytes';

export interface Limits {
  /** Before the body of a request to write is read. @throws Rejected */
  admit(principal: Principal, headers: IncomingHttpHeaders): void;
  /** Before a body is parsed whose length the request's head did not tell. @throws Rejected */
  admitBody(principal: Principal, headers: IncomingHttpHeaders, bytes: number): void;
  /**
   * Before events are appended.
   * @param some how many of them are better than none: all, or 1
   */
  takeEvents(principal: Principal, count: number, some: number): Taken;
}

export interface Taken {
  readonly count: number;
  /** Set where it is fewer than were wanted. */
  readonly refusal?: Rejected;
}

interface Policy {
  /** As `RateLimit-Policy` names it. */
  readonly name: string;
  readonly of: 'project' | 'tenant';
  readonly perSecond: number;
  readonly burstSeconds: number;
  readonly bucket: Bucket;
}

export interface LimitsDeps {
  readonly clock: Clock;
  readonly metrics: Pick<IngestMetrics, 'rateLimited'>;
  /** How many ingests take the tenant's requests, this one too. */
  readonly ingestsOf: (tenantId: string) => number;
}

export function openLimits({ clock, metrics, ingestsOf }: LimitsDeps): Limits {
  // By entity and what, of those that have limits; the directory, which is in memory, bounds it.
  const buckets = new Map<string, Bucket>();
  const take = (principal: Principal, what: What, wanted: number, some: number): Taken => {
    const policies = policiesOf(principal, what, buckets);
    if (policies.length === 0) return { count: wanted };
    const states = statesOf(policies, ingestsOf(principal.tenant.id), clock.now());
    const isEnough = states.every(({ rate, level }) => level >= neededFor(wanted, rate));
    const room = Math.floor(Math.min(...states.map(({ level }) => level)));
    const partly = room >= some ? room : 0;
    const count = isEnough ? wanted : partly;
    for (const { bucket } of policies) bucket.take(count);
    if (isEnough) return { count };
    const left = states.map((state) => ({ ...state, level: state.level - count }));
    const refusal = refusalOf(what, wanted - count, left);
    metrics.rateLimited.inc({ limit: refusal.limit }, what === 'events' ? wanted - count : 1);
    return { count, refusal: refusal.rejected };
  };
  const takeAll = (principal: Principal, what: What, count: number): void => {
    const { refusal } = take(principal, what, count, count);
    if (refusal !== undefined) throw refusal;
  };
  return {
    admit: (principal, headers) => {
      const kind = suspendedOf(principal);
      if (kind !== undefined) {
        metrics.rateLimited.inc({ limit: `${kind}-suspended` });
        throw new Rejected('suspended', `the ${kind} is suspended: its tokens may read, and write nothing`);
      }
      takeAll(principal, 'requests', 1);
      takeAll(principal, 'bytes', Number(headers['content-length'] ?? 0));
    },
    admitBody: (principal, headers, bytes) => {
      if (headers['content-length'] === undefined) takeAll(principal, 'bytes', bytes);
    },
    // A report without events has none that could come too fast.
    takeEvents: (principal, count, some) =>
      count === 0 ? { count } : take(principal, 'events', count, some),
  };
}

const RATES = {
  events: 'eventsPerSecond',
  requests: 'requestsPerSecond',
  bytes: 'bytesPerSecond',
} as const satisfies Record<What, keyof RateLimits>;

/** Units of the IETF's draft; it has none for events. */
const UNITS = { events: 'events', requests: 'requests', bytes: 'content-bytes' } as const;

function suspendedOf({ project, tenant }: Principal): Policy['of'] | undefined {
  if (project.suspended === true) return 'project';
  return tenant.suspended === true ? 'tenant' : undefined;
}

function policiesOf({ project, tenant }: Principal, what: What, buckets: Map<string, Bucket>): Policy[] {
  const of = (kind: Policy['of'], { id, limits }: Pick<Tenant, 'id' | 'limits'>): Policy[] => {
    const perSecond = limits?.[RATES[what]] ?? null;
    if (limits == null || perSecond === null) return [];
    const name = `${kind}-${what}`;
    const bucket = buckets.get(`${name} ${id}`) ?? new Bucket();
    buckets.set(`${name} ${id}`, bucket);
    return [{ name, of: kind, perSecond, burstSeconds: limits.burstSeconds, bucket }];
  };
  return [...of('project', project), ...of('tenant', tenant)];
}

interface State {
  readonly policy: Policy;
  /** This process's share. */
  readonly rate: Rate;
  readonly level: number;
}

function statesOf(policies: readonly Policy[], ingests: number, nowMs: number): State[] {
  return policies.map((policy) => {
    const perSecond = policy.perSecond / ingests;
    const rate = { perSecond, capacity: Math.max(1, perSecond * policy.burstSeconds) };
    return { policy, rate, level: policy.bucket.level(nowMs, rate) };
  });
}

/** With the fields of draft-ietf-httpapi-ratelimit-headers-10: policies as a whole, and what is left of them here. */
function refusalOf(
  what: What,
  wanted: number,
  states: readonly State[],
): { limit: string; rejected: Rejected } {
  const waits = states.map(({ policy, rate, level }) => {
    const seconds = Math.ceil((neededFor(wanted, rate) - level) / rate.perSecond);
    return { policy, level, seconds: Math.max(0, seconds) };
  });
  const [longest] = waits.toSorted((a, b) => b.seconds - a.seconds);
  if (longest === undefined) throw new Error('no limit refuses');
  const { of, name, perSecond } = longest.policy;
  const seconds = Math.max(1, longest.seconds);
  const policies = states.map(({ policy }) => {
    const quota = policy.perSecond * policy.burstSeconds;
    return `"${policy.name}";q=${quota};w=${policy.burstSeconds};qu="${UNITS[what]}"`;
  });
  const left = waits.map(
    ({ policy, level, seconds: t }) => `"${policy.name}";r=${Math.max(0, Math.floor(level))};t=${t}`,
  );
  const headers = {
    'Retry-After': String(seconds),
    'RateLimit-Policy': policies.join(', '),
    RateLimit: left.join(', '),
  };
  const detail = `the ${of} may send ${perSecond} ${what} a second; try again in ${seconds} s`;
  return { limit: name, rejected: new Rejected('rate_limited', detail, { headers }) };
}

/** Enforces the rate limits of projects and tenants. The ingest processes of a tenant share its rates equally. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Principal } from '@questlog/runtime/directory/directory';
import { Bucket, neededFor, type Rate } from '@questlog/runtime/http/core/bucket';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import type { RateLimits, Tenant } from '@questlog/schemas/topics/directoryEntry';
import type { IngestMetrics } from '../metrics.ts';

type LimitedUnit = 'events' | 'requests' | 'bytes';

export interface Limits {
  /** Checks the rate limits of a write request before the request body is read. @throws Rejected if a limit is exceeded */
  admit(principal: Principal, headers: IncomingHttpHeaders): void;
  /** Counts the bytes of a body if the request had no `Content-Length`. @throws Rejected if a rate limit is exceeded */
  admitBody(principal: Principal, headers: IncomingHttpHeaders, bytes: number): void;
  /** @param minimum the smallest useful number of events. If the rate limit allows fewer events, all events are rejected */
  acquireEvents(principal: Principal, count: number, minimum: number): EventPermit;
}

export interface EventPermit {
  readonly count: number;
  readonly rejection?: Rejected;
}

interface Policy {
  /** Name of the rate limit in the header `RateLimit-Policy`. */
  readonly name: string;
  readonly owner: 'project' | 'tenant';
  readonly perSecond: number;
  readonly burstSeconds: number;
  readonly bucket: Bucket;
}

export function openLimits(
  clock: Clock,
  metrics: Pick<IngestMetrics, 'rateLimited' | 'tenantRateLimited'>,
  ingestCountOf: (tenantId: string) => number,
): Limits {
  const buckets = new Map<string, Bucket>();
  const acquire = (
    principal: Principal,
    unit: LimitedUnit,
    requested: number,
    minimum: number,
  ): EventPermit => {
    const policies = policiesOf(principal, unit, buckets);
    if (policies.length === 0) return { count: requested };
    const states = statesOf(policies, ingestCountOf(principal.tenant.id), clock.now());
    const isEnough = allowAll(states, requested);
    const available = Math.floor(Math.min(...states.map(({ level }) => level)));
    const partial = available >= minimum ? available : 0;
    const count = isEnough ? requested : partial;
    for (const { policy } of states) policy.bucket.take(count);
    if (isEnough) return { count };
    const remaining = states.map((state) => ({ ...state, level: state.level - count }));
    const rejection = rejectionOf(unit, requested - count, remaining);
    const rejectedCount = unit === 'events' ? requested - count : 1;
    metrics.rateLimited.inc({ limit: rejection.limit }, rejectedCount);
    metrics.tenantRateLimited.add(principal.tenant.id, rejectedCount);
    return { count, rejection: rejection.rejected };
  };
  const acquireAll = (principal: Principal, unit: LimitedUnit, count: number): void => {
    const { rejection } = acquire(principal, unit, count, count);
    if (rejection !== undefined) throw rejection;
  };
  return {
    admit: (principal, headers) => {
      const kind = suspendedOwner(principal);
      if (kind !== undefined) {
        metrics.rateLimited.inc({ limit: `${kind}-suspended` });
        metrics.tenantRateLimited.add(principal.tenant.id, 1);
        throw new Rejected('suspended', `the ${kind} is suspended: its tokens may only read`);
      }
      acquireAll(principal, 'requests', 1);
      acquireAll(principal, 'bytes', Number(headers['content-length'] ?? 0));
    },
    admitBody: (principal, headers, bytes) => {
      if (headers['content-length'] === undefined) acquireAll(principal, 'bytes', bytes);
    },
    acquireEvents: (principal, count, minimum) =>
      count === 0 ? { count } : acquire(principal, 'events', count, minimum),
  };
}

const RATES = {
  events: 'eventsPerSecond',
  requests: 'requestsPerSecond',
  bytes: 'bytesPerSecond',
} as const satisfies Record<LimitedUnit, keyof RateLimits>;

/** Units in the header `RateLimit-Policy`. The unit `events` is Questlog's own, because the IETF draft has no such unit. */
const UNITS = { events: 'events', requests: 'requests', bytes: 'content-bytes' } as const;

function suspendedOwner({ project, tenant }: Principal): Policy['owner'] | undefined {
  if (project.suspended === true) return 'project';
  return tenant.suspended === true ? 'tenant' : undefined;
}

function policiesOf(
  { project, tenant }: Principal,
  unit: LimitedUnit,
  buckets: Map<string, Bucket>,
): Policy[] {
  const policiesFor = (kind: Policy['owner'], { id, limits }: Pick<Tenant, 'id' | 'limits'>): Policy[] => {
    const perSecond = limits?.[RATES[unit]] ?? null;
    if (limits == null || perSecond === null) return [];
    const name = `${kind}-${unit}`;
    const bucket = buckets.get(`${name} ${id}`) ?? new Bucket();
    buckets.set(`${name} ${id}`, bucket);
    return [{ name, owner: kind, perSecond, burstSeconds: limits.burstSeconds, bucket }];
  };
  return [...policiesFor('project', project), ...policiesFor('tenant', tenant)];
}

interface State {
  readonly policy: Policy;
  readonly rate: Rate;
  readonly level: number;
}

function allowAll(states: readonly State[], requested: number): boolean {
  return states.every(({ rate, level }) => level >= neededFor(requested, rate));
}

function statesOf(policies: readonly Policy[], ingests: number, nowMs: number): State[] {
  return policies.map((policy) => {
    const perSecond = policy.perSecond / ingests;
    const rate = { perSecond, capacity: Math.max(1, perSecond * policy.burstSeconds) };
    return { policy, rate, level: policy.bucket.level(nowMs, rate) };
  });
}

/**
 * Returns a 429 with the headers of draft-ietf-httpapi-ratelimit-headers-11. In the header `RateLimit`, `r` is the quota that
 * is left in this process. This quota must suffice for the next `t` seconds.
 */
function rejectionOf(
  unit: LimitedUnit,
  requested: number,
  states: readonly State[],
): { limit: string; rejected: Rejected } {
  const waits = states.map(({ policy, rate, level }) => {
    const seconds = Math.ceil((neededFor(requested, rate) - level) / rate.perSecond);
    return { policy, level, seconds: Math.max(0, seconds) };
  });
  const [longest] = waits.toSorted((a, b) => b.seconds - a.seconds);
  if (longest === undefined) throw new Error('no limit is exceeded');
  const { owner, name, perSecond } = longest.policy;
  const seconds = Math.max(1, longest.seconds);
  const policies = states.map(({ policy }) => {
    const quota = policy.perSecond * policy.burstSeconds;
    return `"${policy.name}";q=${quota};w=${policy.burstSeconds};qu="${UNITS[unit]}"`;
  });
  const available = waits.map(
    (wait) => `"${wait.policy.name}";r=${Math.max(0, Math.floor(wait.level))};t=${Math.max(1, wait.seconds)}`,
  );
  const headers = {
    'Retry-After': String(seconds),
    'RateLimit-Policy': policies.join(', '),
    RateLimit: available.join(', '),
  };
  const detail = `the ${owner} may send ${perSecond} ${unit} a second; try again in ${seconds} s`;
  return { limit: name, rejected: new Rejected('rate_limited', detail, { headers }) };
}

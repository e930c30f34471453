/**
 * Measures the cost of an event for the ingest of larger deployments. The small base deployment is measured before and after
 * each larger deployment, on the same broker.
 */
import { aProject } from '../../e2e/builders.ts';
import { removeDeployment } from '../../e2e/cluster.ts';
import { measureCost, type PathBench } from '../path/measurePath.ts';
import type { CostFigures, RunFacts } from '../path/pathFigures.ts';
import { nameOf, type PathOptions, type Shape } from '../path/pathOptions.ts';
import { OWN_TREE, openDeployment } from '../path/questlogPeer.ts';
import { requestOf } from '../path/rawHttp.ts';
import { openTelemetry } from '../telemetry.ts';
import { fileReports, registerSessions, storeSessions } from './fillDeployment.ts';

export interface FlatResult {
  readonly run: RunFacts;
  readonly base: Size;
  readonly rows: readonly FlatRow[];
}

/** Size of a deployment. */
export interface Size {
  readonly tenants: number;
  /** Sessions of all tenants. */
  readonly sessions: number;
  /** Sessions that the load uses. */
  readonly sessionsInUse: number;
  readonly partitions: number;
  readonly spread: number;
  /** Maximum sessions of one request: a game server sends events of many sessions, a game client events of one. */
  readonly sessionsARequest: number;
  /** Reports of sessions in use, with windows that stay open during the measurement. */
  readonly openReports: number;
}

export interface FlatRow {
  /** Properties that differ from the base. */
  readonly change: Partial<Size>;
  readonly figures: readonly FlatFigures[];
}

export interface FlatFigures extends Shape {
  /** Figures before and after. */
  readonly base: readonly [CostFigures, CostFigures];
  readonly changed: CostFigures;
}

const BASE: Size = {
  ...{ tenants: 1, sessions: 10_000, sessionsInUse: 10_000 },
  ...{ partitions: 12, spread: 1, sessionsARequest: 500, openReports: 0 },
};
const CHANGES: readonly Partial<Size>[] = [
  { tenants: 10 },
  { tenants: 100 },
  { sessions: 1_000_000 },
  { sessions: 10_000_000 },
  { sessions: 1_000_000, sessionsInUse: 200_000 },
  { partitions: 100 },
  { partitions: 100, tenants: 100 },
  { spread: 8 },
  { sessionsARequest: 1 },
  { spread: 8, sessionsARequest: 1 },
  { openReports: 1_000 },
  { openReports: 50_000 },
];
const WARM_UP_MS = 3_000;
/** Prebuilt events: each session in use occurs a few times. */
const POOLED = { events: 20_000, eventsASession: 2 } as const;
const QUOTA = 1_000_000_000;

type FlatBench = Omit<PathBench, 'options'> & { options: Pick<PathOptions, 'seconds' | 'shapes'> };

export async function measureFlat(bench: FlatBench, run: RunFacts): Promise<FlatResult> {
  const { say, options } = bench;
  say('the base starts');
  const base = await openSized(bench, BASE, 'flat_base');
  await base.measure('the base warms up');
  let before = await base.measure('the base');
  const rows: FlatRow[] = [];
  for (const [i, change] of CHANGES.entries()) {
    const name = `${i + 1} of ${CHANGES.length}, ${changeName(change)}`;
    const changed = await measureChange(bench, change, `flat_${i}`, name);
    const after = await base.measure(`${name}: the base again`);
    const figures = options.shapes.map((shape, one): FlatFigures => {
      const at = (of: readonly CostFigures[]): CostFigures => of[one] as CostFigures;
      return { ...shape, base: [at(before), at(after)], changed: at(changed) };
    });
    rows.push({ change, figures });
    before = after;
  }
  return { run, base: BASE, rows };
}

/** Returns a name such as `tenants 100, partitions 100`. */
export function changeName(change: Partial<Size>): string {
  return (Object.entries(change) as [keyof Size, number][])
    .map(([name, value]) => `${NAMES[name]} ${value.toLocaleString('en-US')}`)
    .join(', ');
}

const NAMES = {
  tenants: 'tenants',
  sessions: 'sessions',
  sessionsInUse: 'sessions in use',
  partitions: 'partitions',
  spread: 'spread',
  sessionsARequest: 'sessions a request',
  openReports: 'open reports',
} as const;

async function measureChange(
  bench: FlatBench,
  change: Partial<Size>,
  name: string,
  title: string,
): Promise<CostFigures[]> {
  // Ends the processes and deletes topics and tables before the next change starts.
  await using ending = new AsyncDisposableStack();
  bench.stack.ending.use({ [Symbol.asyncDispose]: () => ending.disposeAsync() });
  bench.say(`${title}: is filled`);
  const stack = { ...bench.stack, ending };
  const sized = await openSized({ ...bench, stack }, { ...BASE, ...change }, name);
  await sized.measure(`${title}: warms up`);
  return await sized.measure(title);
}

interface Sized {
  /** Measures each shape in turn. */
  measure(title: string): Promise<CostFigures[]>;
}

interface Sender {
  readonly token: string;
  readonly sessions: readonly string[];
}

async function openSized(bench: FlatBench, size: Size, name: string): Promise<Sized> {
  const { stack, options, say } = bench;
  const settings = { QUESTLOG_PARTITIONS: `${size.partitions}` };
  stack.ending.defer(() => removeDeployment(stack.engines, name));
  const { pid, reached, baseUrl } = await openDeployment(stack, { root: OWN_TREE, name }, settings)('ingest');
  const senders: Sender[] = [];
  for (let i = 0; i < size.tenants; i++) {
    const of = { revision: 'A', monthlySoftQuota: QUOTA, spread: size.spread } as const;
    const project = await aProject(reached, of);
    const { tenantId, projectId, token } = project;
    const registered = Math.min(size.sessions, BASE.sessions) / size.tenants;
    const own = await registerSessions(project, registered);
    const more = { tenantId, projectId, count: size.sessions / size.tenants - registered };
    const stored = more.count === 0 ? () => '' : await storeSessions(stack.engines, name, more, say);
    const inUse = size.sessionsInUse / size.tenants;
    const others = Array.from({ length: Math.max(0, inUse - registered) }, (_, i) => stored(i));
    senders.push({ token, sessions: [...own, ...others].slice(0, inUse) });
    await fileReports(project, own, size.openReports, say);
  }
  const url = `${baseUrl}/v1/ingest/events`;
  return {
    measure: async (title) => {
      const costs: CostFigures[] = [];
      for (const shape of options.shapes) {
        say(`${title}: ${nameOf(shape)}`);
        const requests = pooled(size, senders, url, shape);
        const { connections } = shape;
        const load = { url, status: 201, requests, connections };
        const target = { ...load, warmUpMs: WARM_UP_MS, forMs: options.seconds * 1000 };
        costs.push(await measureCost({ pid }, target, shape));
      }
      return costs;
    },
  };
}

function pooled(
  { sessionsInUse, sessionsARequest }: Size,
  senders: readonly Sender[],
  url: string,
  { events }: Shape,
): Buffer[] {
  const telemetry = openTelemetry();
  const count = Math.ceil(Math.max(POOLED.events, sessionsInUse * POOLED.eventsASession) / events);
  return Array.from({ length: count }, (_, i) => {
    const { token, sessions } = senders[i % senders.length] as Sender;
    const first = telemetry.random.between(0, Math.max(0, sessions.length - sessionsARequest));
    return requestOf(url, token, telemetry.batch(events, sessions.slice(first, first + sessionsARequest)));
  });
}

/** Kills and restarts the product under load, and ends with a running product that has caught up. */
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { aProject, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn, type Product, removeDataDir, spawnProduct, startProduct } from '../e2e/product.ts';
import { KillClient } from './killClient.ts';
import { SentLedger } from './ledger.ts';
import { type Random, seeded } from './seeded.ts';

/** Quota that the load reaches, so that the flags change during the load. */
export const SOFT_QUOTA = 2_000;

/** Maximum load before a kill. */
const MAX_LOAD_MS = 900;
/** Maximum time before a kill during the start, which takes about half a second on an idle machine. */
const MAX_START_MS = 700;
const START_KILL_SHARE = 0.25;
/**
 * Share of restarts after which the campaign searches for duplicates; after the others, the load resumes while the projector is
 * behind.
 */
const LOOK_SHARE = 0.5;
const CLIENTS_PER_PROJECT = 3;
const CAUGHT_UP_WITHIN_MS = 60_000;

export class Campaign {
  readonly ledger = new SentLedger();
  readonly #random: Random;
  readonly #dataDir = mkdtempSync(join(tmpdir(), 'questlog-kill-'));
  #product: Product | undefined;
  /** Projects of the load. The tenant of the first project has the quota `SOFT_QUOTA`. */
  #projects: readonly TestProject[] = [];

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  /** Running product. */
  get product(): Product {
    if (this.#product === undefined) throw new Error('the campaign has not been run');
    return this.#product;
  }

  get projects(): readonly TestProject[] {
    return this.#projects;
  }

  /** @param kills number of kills under load; some are followed by a kill during the next start */
  async run(kills: number): Promise<void> {
    const random = this.#random;
    fillWithTables(join(this.#dataDir, 'clickhouse'));
    await this.#start();
    this.#projects = await someProjects(this.product);
    const clients = this.#projects.flatMap((project, i) => clientsOf(project, i, this.ledger, random));
    for (let kill = 0; kill < kills; kill++) {
      await killUnderLoad(this.product, clients, random.between(0, MAX_LOAD_MS));
      this.ledger.violations.push(...bugsIn(this.product.stderr()));
      if (random.chance(START_KILL_SHARE)) {
        await killWhileStarting(this.#dataDir, random.between(0, MAX_START_MS));
      }
      await this.#start();
      if (random.chance(LOOK_SHARE)) await this.#lookForDuplicates();
    }
    await Promise.all(clients.map((client) => client.finish(this.product)));
    await this.#lookForDuplicates();
  }

  async end(): Promise<void> {
    await this.#product?.stop();
    await removeDataDir({ dataDir: this.#dataDir });
  }

  async #start(): Promise<void> {
    this.#product = await startProduct({ dataDir: this.#dataDir });
  }

  /** Searches for duplicate rows right after the recovery, because a later merge would remove them. */
  async #lookForDuplicates(): Promise<void> {
    // The quota is answered after the projection has processed the log.
    for (const { token } of this.#projects) await quotaOf(this.product, token);
    const rows = await this.product.sql<{ id: string }>(
      'SELECT id FROM events GROUP BY id HAVING count() > 1 LIMIT 100',
    );
    for (const { id } of rows) this.ledger.violations.push(`event ${id} was seen twice`);
  }
}

export async function quotaOf(product: Product, token: string): Promise<{ month: string; used: number }> {
  const headers = { Authorization: `Bearer ${token}` };
  const look = () => product.request('GET', '/v1/quota', { headers });
  return (await eventually(look, ({ status }) => status === 200, CAUGHT_UP_WITHIN_MS)).json();
}

/** Creates two projects of one tenant, and one of a tenant whose sessions are spread over the partitions. */
export async function someProjects(product: Product): Promise<TestProject[]> {
  const first = await aProject(product, { revision: 'A', monthlySoftQuota: SOFT_QUOTA });
  return [
    first,
    await aProject(product, { revision: 'B', tenantId: first.tenantId }),
    await aProject(product, { revision: 'B', spread: 4 }),
  ];
}

export function clientsOf(
  project: TestProject,
  number: number,
  ledger: SentLedger,
  random: Random,
): KillClient[] {
  const { tenantId, projectId, token } = project;
  return Array.from({ length: CLIENTS_PER_PROJECT }, (_, i) => {
    const own = seeded(random.between(0, 2 ** 31));
    const name = `${number}-${i}`;
    const mayOmitSession = number > 0;
    return new KillClient({ name, tenantId, projectId, token, mayOmitSession, random: own, ledger });
  });
}

async function killUnderLoad(
  product: Product,
  clients: readonly KillClient[],
  afterMs: number,
): Promise<void> {
  const playing = clients.map((client) => client.play(product));
  // Not a wait for a condition: the test varies the time of the kill.
  await delay(afterMs);
  await product.kill();
  await Promise.all(playing);
}

async function killWhileStarting(dataDir: string, afterMs: number): Promise<void> {
  const child = spawnProduct({ dataDir });
  const exited = once(child, 'exit');
  await delay(afterMs);
  child.kill('SIGKILL');
  await exited;
}

/** Rows of the campaign: a small disk of a broker or of ClickHouse is full for a while. */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keepSecondRows } from '../../cluster/auditDeployment.ts';
import { eventually, type TestProject } from '../../e2e/builders.ts';
import { bugsIn, type Product, startProduct } from '../../e2e/product.ts';
import { auditCounts, auditEvents, auditOrder, auditSessions, storedRows } from '../audit.ts';
import { clientsOf, quotaOf, someProjects } from '../killCampaign.ts';
import { SentLedger } from '../ledger.ts';
import { Lacking, type Planted, type Row, type Site } from './row.ts';

const RUNS = 5;
const MIB = 1024 ** 2;
/** Free bytes before the disk is full. */
const ROOM_BYTES = 64 * MIB;
const GONE_WITHIN_MS = 120_000;
const FULL_MS = 10_000;
const PROBES = 4;
/** Sizes for the single process: its disk, the load before the disk is full, and the load that must succeed afterwards. */
const EMBEDDED_BYTES = 128 * MIB;
const EMBEDDED_LOADED_MS = 3_000;
const EMBEDDED_MORE = 500;

export const DISKS: readonly Row[] = [
  {
    name: 'disk-full-broker',
    does: 'Fills the disk of a broker, which stops until the disk has space.',
    runs: RUNS,
    plant: async (site) => {
      const { trial, stack, random } = site;
      const broker = random.pick(['broker-1', 'broker-2', 'broker-3']);
      return await onSmallDisk(site, broker, 'log', async (disk) => {
        await trial.waitForProgress();
        disk.fill();
        const isDown = async () => (await stack.status())[broker]?.state === 'down';
        await eventually(isDown, Boolean, GONE_WITHIN_MS);
        await trial.waitForProgress();
        disk.empty();
        return { counts: { 'disks full': 1 } };
      });
    },
  },
  {
    name: 'disk-full-clickhouse',
    does: 'Fills the disk of ClickHouse. Requests must get 201 or 503.',
    runs: RUNS,
    plant: async (site) => {
      const { trial } = site;
      const planted = await onSmallDisk(site, 'clickhouse', '', async (disk) => {
        await keepSecondRows(trial.deployment);
        return await fillForAWhile(site, disk);
      });
      await keepSecondRows(trial.deployment);
      return planted;
    },
  },
  {
    name: 'disk-full-embedded',
    does: 'Fills the disk of a single process. Requests get 503 until the disk has space.',
    runs: RUNS,
    alone: (chances) => embeddedDisk(chances),
  },
];

const embeddedDisk: NonNullable<Row['alone']> = async ({ random, wait }) => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-disk-'));
  mount(folder, EMBEDDED_BYTES);
  let product: Product | undefined;
  try {
    product = await startProduct({ dataDir: folder });
    const { request } = product;
    const ledger = new SentLedger();
    const projects = await someProjects(product);
    const clients = projects.flatMap((project, i) => clientsOf(project, i, ledger, random));
    let [isOver, refused] = [false, 0];
    const reach: Pick<Product, 'request'> = {
      request: async (...args) => {
        if (isOver) throw new Error('the load has ended');
        const answer = await request(...args);
        if (answer.status === 503) refused += 1;
        return answer;
      },
    };
    const playing = clients.map((client) => client.play(reach));
    const disk = diskAt(folder);
    await wait(random.between(0, EMBEDDED_LOADED_MS));
    disk.fill();
    await wait(random.between(0, FULL_MS));
    disk.empty();
    const roomMs = performance.now();
    const before = ledger.acknowledged;
    const isBack = (count: number) => count > before + EMBEDDED_MORE;
    await eventually(async () => ledger.acknowledged, isBack, GONE_WITHIN_MS);
    isOver = true;
    await Promise.all(playing);
    for (const client of clients) await client.finish(product);
    // The quota is answered after the projection has processed the log.
    for (const { token } of projects) await quotaOf(product, token);
    const drainSeconds = Math.round((performance.now() - roomMs) / 100) / 10;
    const rows = await storedRows(product);
    const findings = [
      ...ledger.violations,
      ...bugsIn(product.stderr()),
      ...auditEvents(ledger, rows),
      ...auditOrder(ledger, rows),
      ...(await auditSessions(product, ledger)),
      ...(await auditCounts(product, rows)),
      ...(refused === 0 ? ['no request was rejected while the disk was full'] : []),
    ];
    return {
      findings,
      events: rows.length,
      links: 0,
      refused,
      unanswered: 0,
      drainSeconds,
      counts: { 'disks full': 1 },
    };
  } finally {
    await product?.kill();
    run('umount', '-l', folder);
    rmSync(folder, { recursive: true });
  }
};

/** Fills the disk under load for a while. Requests must get 201 or 503 meanwhile. */
export async function fillForAWhile({ trial, random, wait }: Site, disk: SmallDisk): Promise<Planted> {
  await trial.waitForProgress();
  disk.fill();
  await wait(random.between(0, FULL_MS));
  const [game] = trial.projects as [TestProject];
  const statuses: number[] = [];
  for (let probe = 0; probe < PROBES; probe++) statuses.push((await trial.load.probe(game)).status);
  disk.empty();
  const others = statuses.filter((status) => status !== 201 && status !== 503);
  const findings = others.map((status) => `a probe on a full disk was answered ${status}`);
  return { counts: { 'disks full': 1 }, check: async () => findings };
}

export interface SmallDisk {
  /** Fills the disk to the last byte. */
  fill(): void;
  empty(): void;
}

/**
 * Moves a node of the stack to a small disk while `work` runs, and back afterwards. @throws Lacking if the machine does not
 * allow mounts
 */
async function onSmallDisk<T>(
  { stack }: Site,
  node: string,
  inside: string,
  work: (disk: SmallDisk) => Promise<T>,
): Promise<T> {
  const folder = join(stack.dataDir, 'stack/cluster', node, inside);
  const aside = `${folder.replace(/\/$/, '')}.aside`;
  await stack.do('kill', node);
  renameSync(folder, aside);
  mkdirSync(folder);
  const held = Number(run('du', '-s', '--block-size=1', aside).split('\t')[0]);
  try {
    mount(folder, held + ROOM_BYTES);
  } catch (error) {
    rmSync(folder, { recursive: true });
    renameSync(aside, folder);
    await stack.do('start', node);
    throw error;
  }
  try {
    run('cp', '-a', '--sparse=always', `${aside}/.`, folder);
    rmSync(aside, { recursive: true });
    await stack.do('start', node);
    return await work(diskAt(folder));
  } finally {
    if ((await stack.status())[node]?.state === 'up') await stack.do('kill', node);
    rmSync(join(folder, BALLAST), { force: true });
    run('cp', '-a', '--sparse=always', folder, aside);
    // An ending process may still have open files.
    run('umount', '-l', folder);
    rmSync(folder, { recursive: true });
    renameSync(aside, folder);
    await stack.do('start', node);
  }
}

const BALLAST = 'ballast';

export function diskAt(folder: string): SmallDisk {
  const path = join(folder, BALLAST);
  return {
    fill: () => {
      const file = openSync(path, 'w');
      const chunk = Buffer.alloc(MIB / 16);
      try {
        const { bavail, bsize } = statfsSync(folder);
        for (let left = bavail * bsize; left > 0; left -= chunk.length) writeSync(file, chunk);
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(path),
  };
}

/** @throws Lacking if mounting is not possible */
export function mount(folder: string, bytes: number): void {
  const { status, stderr, error } = spawnSync(
    'mount',
    ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', folder],
    {
      encoding: 'utf8',
    },
  );
  if (status !== 0)
    throw new Lacking(`a small disk cannot be mounted here: ${stderr || (error?.message ?? 'mount failed')}`);
}

export function run(command: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr || error?.message}`);
  return stdout;
}

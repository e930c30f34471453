/** Tests that only one process can own the directory, and that acknowledged rows survive a kill. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { StartRefused } from '../../../process/errors.ts';
import { startEmbeddedClickHouse } from '../embeddedClickHouse.ts';
import { aClickHouse } from '../testing/aClickHouse.ts';
import { closeSharedEngine } from '../testing/sharedEngine.ts';

const KILLS = 5;
const INSERT_ROWS = 500;
const CHILD = fileURLToPath(new URL('../testing/durabilityChild.ts', import.meta.url));

beforeAll(closeSharedEngine);

let directory: string;
const children = new Set<ChildProcess>();
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'questlog-clickhouse-'));
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
});

test(`${KILLS} kills lose no acknowledged row and write no partial insert`, async () => {
  const acknowledged = new Set<number>();
  for (let round = 0; round < KILLS; round += 1) {
    const child = startChild(round * 1_000_000);
    const exited = once(child, 'exit');
    const enough = 5 + Math.floor(Math.random() * 25);
    let seen = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      acknowledged.add(Number(line));
      seen += 1;
      if (seen === enough) child.kill('SIGKILL');
    }
    await exited;
    expect(child.signalCode).toBe('SIGKILL');
    // The engine itself must print nothing.
    expect(child.errors()).toBe('');
  }
  await using it = await aClickHouse({ directory });
  const text = await it.ask('SELECT batch, count() FROM t GROUP BY batch FORMAT TabSeparated');
  const stored = new Map(
    text
      .trim()
      .split('\n')
      .map((line) => line.split('\t').map(Number) as [number, number]),
  );
  expect(acknowledged.size).toBeGreaterThan(KILLS * 4);
  expect([...acknowledged].filter((batch) => stored.get(batch) !== INSERT_ROWS)).toEqual([]);
  expect([...stored.values()].filter((count) => count !== INSERT_ROWS)).toEqual([]);
  // At each kill, at most one insert was running. Its rows may be stored without an acknowledgement.
  expect(stored.size - acknowledged.size).toBeLessThanOrEqual(KILLS);
});

test('rejects, with one clear line, a directory that another process uses', async () => {
  const child = startChild(0);
  await once(child.stdout, 'data');
  const start = startEmbeddedClickHouse({ directory, password: 'secret' });
  await expect(start).rejects.toThrow(StartRefused);
  await expect(start).rejects.toThrow(
    `another process (pid ${child.pid}) uses the embedded ClickHouse in ${directory}`,
  );
  child.kill('SIGKILL');
  await once(child, 'exit');
  await (await startEmbeddedClickHouse({ directory, password: 'secret' })).close();
});

test('rejects a second server in this process, but accepts a new one after the first is closed', async () => {
  const first = await startEmbeddedClickHouse({ directory, password: 'secret' });
  await expect(startEmbeddedClickHouse({ directory, password: 'secret' })).rejects.toThrow(/already runs/);
  await first.close();
  await first.close();
  const second = await startEmbeddedClickHouse({ directory, password: 'secret' });
  await second.close();
});

test('rejects a port in use, and releases the directory', async () => {
  const first = await startEmbeddedClickHouse({ directory, password: 'secret' });
  const port = Number(new URL(first.url).port);
  await first.close();
  const taken = (await import('node:net')).createServer().listen(port, '127.0.0.1');
  await once(taken, 'listening');
  await expect(startEmbeddedClickHouse({ directory, password: 'secret', port })).rejects.toThrow(
    /cannot listen/,
  );
  taken.close();
  await (await startEmbeddedClickHouse({ directory, password: 'secret', port })).close();
});

test('closing waits for running requests', async () => {
  await using it = await aClickHouse();
  const slow = it.ask('SELECT sleep(2)');
  const running = () => it.ask("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleep%'");
  await expect.poll(running).toBe('1\n');
  await it.server.close();
  expect(await slow).toBe('0\n');
  await expect(it.ask('SELECT 1')).rejects.toThrow();
});

function startChild(firstBatch: number) {
  const child = spawn(process.execPath, [CHILD, directory, `${firstBatch}`, `${INSERT_ROWS}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  return Object.assign(child, { errors: () => errors });
}

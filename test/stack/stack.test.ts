/**
 * Tests `npm run stack` with real brokers, a real registry, and a real ClickHouse. Several starts give one stack, a kill or a stop
 * loses no data, and no other process is killed. The tests use one stack in order.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { PluginGame } from '../e2e/pluginGame.ts';
import { collectOutput, end, reach, ready, send, spawnProduct } from '../e2e/product.ts';
import { clientsOf, type StackClients } from './stackClients.ts';
import {
  environmentIn,
  missingRequirement,
  type NodeStatus,
  type Outcome,
  stackCommands,
} from './stackCommands.ts';

/** Time limit of a start. On two idle cores, brokers and registry start within 20 s, but other tests run at the same time. */
const WITHIN_MS = 300_000;
const NODES = ['broker-1', 'broker-2', 'broker-3', 'registry', 'clickhouse'];
const TOPIC = 'trusted';
const SCHEMA = '"string"';

describe('a stack of three brokers', () => {
  const stack = stackCommands();
  const statePath = join(stack.dataDir, 'stack/cluster/stack.json');
  /** Requirement of a stack that this machine does not meet. */
  let lack: string | undefined;
  let ups: readonly Outcome[];
  let printed: string;
  let clients: StackClients;
  let schemaId: number;
  let strangers: ChildProcess[] = [];
  /** Waits until all nodes are up, because a node on a busy machine can seem down for a moment. */
  const allUp = () =>
    eventually(
      () => stack.status(),
      (nodes) => statesOf(nodes).every((state) => state === 'up'),
    );

  beforeAll(async () => {
    ups = await Promise.all([stack.run('up', '--brokers', '3'), stack.run('up', '--brokers', '3')]);
    printed = ups[0]?.stdout ?? '';
    lack = missingRequirement(ups[0]?.stderr ?? '');
    if (lack !== undefined) console.warn(`skipped: no local Kafka can be tried here: ${lack}`);
    if (printed !== '') clients = clientsOf(environmentIn(printed));
  }, WITHIN_MS);

  afterAll(async () => {
    for (const stranger of strangers) stranger.kill('SIGKILL');
    await stack.remove();
  }, WITHIN_MS);

  beforeEach((context) => {
    if (lack !== undefined) context.skip(lack);
  });

  test('is only one after two concurrent starts', async () => {
    expect(
      ups.map(({ code, stderr }) => ({ code, stderr: stderr.replace(/^.*(waiting|fetching).*\n/gm, '') })),
    ).toEqual([
      { code: 0, stderr: '' },
      { code: 0, stderr: '' },
    ]);
    expect(ups[1]?.stdout).toBe(printed);
    const nodes = await allUp();
    expect(Object.keys(nodes)).toEqual(NODES);
    // A second stack would also use the folder.
    expect(processesOf(stack.dataDir).sort()).toEqual(pidsOf(nodes).sort());
  });

  test('prints four lines that a shell can pass to a program as environment variables', async () => {
    expect(printed).toMatch(
      /^KAFKA_BROKERS=127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\nSCHEMA_REGISTRY_URL=http:\S+\nCLICKHOUSE_URL=http:\S+\nCLICKHOUSE_READER_URL=http:\S+\n$/,
    );
    const { stdout } = await stack.shell('env $(npm run -s stack -- up) env');
    expect(environmentIn(stdout)).toMatchObject(environmentIn(printed));
  });

  test('is not changed by another up', async () => {
    const before = await allUp();
    expect(await stack.do('up')).toBe(printed);
    await expect.poll(() => stack.status()).toEqual(before);
  });

  test('does not show its password to other users of the machine', async () => {
    const { password } = new URL(environmentIn(printed)['CLICKHOUSE_URL'] ?? '');
    const lines = processesOf(stack.dataDir).map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
    expect(lines.filter((line) => line.includes(password))).toEqual([]);
    expect(statSync(statePath).mode & 0o777).toBe(0o600);
  });

  test('rejects another number of brokers, unknown names, and unknown commands without a change', async () => {
    const before = await allUp();
    const refusals: [string[], RegExp][] = [
      [
        ['up', '--brokers', '1'],
        /^stack: the cluster has 3 brokers; to change this, run "down" and remove \S+\n$/,
      ],
      [['kill', 'broker-4'], /^stack: there is no broker-4, only broker-1, .*clickhouse\n$/],
      [['start', 'broker-1', 'zookeeper'], /^stack: there is no zookeeper, only/],
      [['kill'], /^stack: usage: /],
      [['stop'], /^stack: usage: /],
    ];
    for (const [args, message] of refusals) {
      const { code, stdout, stderr } = await stack.run(...args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(message);
    }
    await expect.poll(() => stack.status()).toEqual(before);
  });

  test(
    'returns the records from before and during the failure of a broker after the broker restarts',
    async () => {
      await clients.createTopic(TOPIC);
      await clients.append(TOPIC, 'before');
      const before = await allUp();
      await stack.do('kill', 'broker-2');
      expect(isRunning(before['broker-2'])).toBe(false);
      await expect
        .poll(() => stack.status())
        .toEqual({
          ...before,
          'broker-2': { ...before['broker-2'], pid: Number.NaN, state: 'down' },
        });
      await clients.append(TOPIC, 'while');

      await stack.do('start', 'broker-2');

      const after = await stack.status();
      expect(after['broker-2']).toMatchObject({ port: before['broker-2']?.port, state: 'up' });
      expect(after['broker-2']?.pid).not.toBe(before['broker-2']?.pid);
      expect(await clients.read(TOPIC, 2)).toEqual(['before', 'while']);
    },
    WITHIN_MS,
  );

  test(
    'keeps the rows that ClickHouse acknowledged before it was killed',
    async () => {
      await clients.query('CREATE TABLE trusted (n UInt64) ENGINE = MergeTree ORDER BY n');
      await clients.query('INSERT INTO trusted SELECT number FROM numbers(1000)');
      await stack.do('kill', 'clickhouse');
      expect((await stack.status())['clickhouse']?.state).toBe('down');
      await expect(clients.query('SELECT 1')).rejects.toThrow();

      await stack.do('start', 'clickhouse');

      expect(await clients.query('SELECT count(), sum(n) FROM trusted')).toBe('1000\t499500\n');
    },
    WITHIN_MS,
  );

  test(
    'leaves no process running after down',
    async () => {
      schemaId = await clients.register(TOPIC, SCHEMA);
      const before = pidsOf(await stack.status());
      await stack.do('down');
      expect(before.length).toBe(NODES.length);
      expect(before.filter((pid) => existsProcess(pid))).toEqual([]);
      expect(processesOf(stack.dataDir)).toEqual([]);
      expect(statesOf(await stack.status())).toEqual(NODES.map(() => 'down'));
    },
    WITHIN_MS,
  );

  test('does not kill another process that got the pid of one of its nodes', async () => {
    await stack.do('down');
    strangers = NODES.map(() => spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']));
    const state = readFileSync(statePath, 'utf8');
    let at = 0;
    writeFileSync(
      statePath,
      state.replace(/"pid": \d+/g, () => `"pid": ${strangers[at++]?.pid}`),
    );
    expect(at).toBe(NODES.length);

    expect(statesOf(await stack.status())).toEqual(NODES.map(() => 'down'));
    expect((await stack.run('kill', 'broker-1')).stderr).toBe('stack: broker-1 does not run\n');
    await stack.do('down');

    expect(strangers.map(({ pid }) => existsProcess(pid ?? 0))).toEqual(NODES.map(() => true));
  });

  test(
    'prints the end of the log of a node that fails to start, and stops the other started nodes',
    async () => {
      const settings = join(stack.dataDir, 'stack/cluster/broker-3/server.properties');
      const proper = readFileSync(settings, 'utf8');
      writeFileSync(settings, 'nonsense=1\n');
      const { code, stderr } = await stack.run('start', 'clickhouse', 'broker-3');
      writeFileSync(settings, proper);

      const log = join(stack.dataDir, 'stack/logs/broker-3.log');
      expect(code).toBe(1);
      expect(stderr).toContain(`stack: broker-3 has ended; see ${log}, which ends with\n`);
      expect(stderr).toContain('process.roles');
      expect(stderr).not.toContain('.java:');
      expect(processesOf(stack.dataDir)).toEqual([]);
    },
    WITHIN_MS,
  );

  test(
    'keeps its addresses and its data after down and up',
    async () => {
      expect(await stack.do('up')).toBe(printed);

      await expect.poll(async () => statesOf(await stack.status())).toEqual(NODES.map(() => 'up'));
      expect(await clients.read(TOPIC, 2)).toEqual(['before', 'while']);
      expect(await clients.query('SELECT count() FROM trusted')).toBe('1000\n');
      expect(await clients.schema(schemaId)).toBe(SCHEMA);
    },
    WITHIN_MS,
  );

  test(
    'starts an S3 server on request, and prints the settings for an ingest',
    async (context) => {
      const { code, stdout, stderr } = await stack.run('up', '--s3');
      const noGo = /Go is needed.*/.exec(stderr)?.[0];
      if (noGo !== undefined) {
        console.warn(`skipped: a local S3 server cannot be tried here: ${noGo}`);
        context.skip(noGo);
      }
      expect(code).toBe(0);
      expect(stdout.startsWith(printed)).toBe(true);
      const env = {
        ...environmentIn(stdout),
        QUESTLOG_DEMO: 'on',
        QUESTLOG_ADMIN_TOKEN: 'of-the-tests-only',
      };
      const dataDir = join(stack.dataDir, 'ingest');
      const ingest = spawnProduct({ dataDir, env, args: ['ingest'] });
      onTestFinished(async () => void (await end(ingest, 'SIGTERM')));
      await ready(ingest, collectOutput(ingest), WITHIN_MS);

      const product = reach(JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')));
      const { baseUrl, token } = product.credentials;
      const game = new PluginGame(async (method, path, headers, body) => {
        const url = path.startsWith('http') ? path : baseUrl + path;
        return await send(url, method, '', { headers, body });
      }, token);
      const bytes = randomBytes(3223);
      const { uploadId } = JSON.parse((await game.upload(bytes)) ?? '{}');
      const read = await product.request('GET', `/v1/uploads/${uploadId}`);
      expect([read.status, read.bytes.equals(bytes)]).toEqual([200, true]);
      expect(await stack.do('up')).toBe(stdout);
    },
    WITHIN_MS,
  );
});

/** Returns the processes whose command line or environment contains the folder. */
function processesOf(folder: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.map(Number).filter((pid) => {
    return existsProcess(pid) && `${textOf(pid, 'cmdline')} ${textOf(pid, 'environ')}`.includes(folder);
  });
}

function textOf(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

function pidsOf(nodes: Record<string, NodeStatus>): number[] {
  return Object.values(nodes).map(({ pid }) => pid);
}

function statesOf(nodes: Record<string, NodeStatus>): string[] {
  return Object.values(nodes).map(({ state }) => state);
}

function isRunning(node: NodeStatus | undefined): boolean {
  return existsProcess(node?.pid ?? 0);
}

/** Returns false for a process that has exited but was not reaped yet. */
function existsProcess(pid: number): boolean {
  return /^State:\t[^ZX]/m.test(textOf(pid, 'status'));
}

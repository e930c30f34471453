/** Starts a ClickHouse cluster without Docker, with the command `cluster` of the kit in `QUESTLOG_CLICKHOUSE_CLUSTER_KIT`. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';

const LIBRARY = fileURLToPath(
  new URL('../../node_modules/@chdb/lib-linux-x64-gnu/libchdb.so', import.meta.url),
);
const NODES = ['shard1-replica1', 'shard1-replica2', 'shard2-replica1', 'shard2-replica2'];

/** Ends the cluster when standard input ends, also if the tests are killed. */
const KEEP = `"$0" up --dir "$1" --shards 2 --replicas 2 && cat >/dev/null
"$0" wipe --dir "$1" >/dev/null; rm -rf "$1"`;

export async function startKitCluster(command: string): Promise<ClickHouseCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-clickhouse-cluster-'));
  const env = { ...process.env, LIBCHDB: LIBRARY };
  const keeper = spawn('bash', ['-c', KEEP, command, folder], {
    ...{ env, detached: true },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(keeper, 'exit');
  const output: string[] = [];
  for await (const line of createInterface(keeper.stdout)) {
    output.push(line);
    if (line.startsWith('CLICKHOUSE_KEEPER=')) break;
  }
  const nodes = valueIn(output, 'CLICKHOUSE_NODES').split(',');
  if (nodes.length !== NODES.length) throw new Error('the kit did not start a ClickHouse cluster');
  const names = [...NODES];
  const known = new Set(nodes);
  const run = async (action: string, ...args: string[]): Promise<string> =>
    (await promisify(execFile)(command, [action, '--dir', folder, ...args], { env })).stdout;
  return {
    ...{ name: valueIn(output, 'CLICKHOUSE_CLUSTER'), nodes },
    faults: {
      kill: async (node) => void (await run('kill', names[node] ?? '')),
      start: async (node) => void (await run('start', names[node] ?? '')),
      configure: async (node, xml) => {
        const directory = join(folder, names[node] ?? '', 'config.d');
        mkdirSync(directory, { recursive: true });
        writeFileSync(join(directory, 'test.xml'), xml);
        await run('restart', names[node] ?? '');
      },
      replace: async (node) => {
        const [shard = ''] = (names[node] ?? '').split('-');
        await run('remove', names[node] ?? '');
        // Restarts the other nodes once, for the removal and for the addition.
        const name = (await run('add-replica', shard, '--restart')).trim();
        names[node] = name;
        // The command `up` changes nothing if all nodes run, and prints the addresses.
        const all = valueIn((await run('up')).split('\n'), 'CLICKHOUSE_NODES').split(',');
        const added = all.find((address) => !known.has(address)) ?? '';
        known.add(added);
        return added;
      },
    },
    async [Symbol.asyncDispose]() {
      keeper.stdin.end();
      await ended;
    },
  };
}

function valueIn(lines: readonly string[], name: string): string {
  return lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';
}

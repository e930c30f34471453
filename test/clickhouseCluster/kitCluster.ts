/** Starts a ClickHouse cluster without Docker, with the command `cluster` of the kit in `QUESTLOG_CLICKHOUSE_CLUSTER_KIT`. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ClickHouseCluster, ClusterFaults, ClusterMember, ClusterShape } from './aClickHouseCluster.ts';

const LIBRARY = fileURLToPath(
  new URL('../../node_modules/@chdb/lib-linux-x64-gnu/libchdb.so', import.meta.url),
);

/** Ends the cluster when standard input ends, also if the tests are killed. The arguments are the folder and options of `up`. */
const KEEP = `folder="$1"; shift; "$0" up --dir "$folder" "$@" && cat >/dev/null
"$0" wipe --dir "$folder" >/dev/null; rm -rf "$folder"`;

type Run = (action: string, ...args: string[]) => Promise<string>;

export async function startKitCluster(command: string, shape: ClusterShape): Promise<ClickHouseCluster> {
  const { shards, replicas, keepers = 1, proxied = false, data = {} } = shape;
  const folder = mkdtempSync(join(tmpdir(), 'questlog-clickhouse-cluster-'));
  const env = { ...process.env, LIBCHDB: LIBRARY };
  const options = ['--shards', String(shards), '--replicas', String(replicas), '--keepers', String(keepers)];
  for (const [node, directory] of Object.entries(data)) options.push('--data', `${node}=${directory}`);
  if (proxied) options.push('--proxied');
  const keeper = spawn('bash', ['-c', KEEP, command, folder, ...options], {
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
  if (nodes.length !== shards * replicas) throw new Error('the kit did not start a ClickHouse cluster');
  const names = nodes.map(
    (_, node) => `shard${Math.floor(node / replicas) + 1}-replica${(node % replicas) + 1}`,
  );
  const run: Run = async (action, ...args) =>
    (await promisify(execFile)(command, [action, '--dir', folder, ...args], { env })).stdout;
  return {
    ...{ name: valueIn(output, 'CLICKHOUSE_CLUSTER'), nodes },
    faults: faultsOf({ folder, names, nodes, keepers: keepers === 1 ? ['keeper'] : KEEPERS, run }),
    async [Symbol.asyncDispose]() {
      keeper.stdin.end();
      await ended;
    },
  };
}

const KEEPERS = ['keeper1', 'keeper2', 'keeper3'];

interface KitCluster {
  readonly folder: string;
  /** Name of each node. `addReplica` and `addShard` add the names of new nodes, and `replace` changes a name. */
  readonly names: string[];
  readonly nodes: readonly string[];
  readonly keepers: readonly string[];
  readonly run: Run;
}

function faultsOf({ folder, names, nodes, keepers, run }: KitCluster): ClusterFaults {
  const known = new Set(nodes);
  const nameOf = (member: ClusterMember): string =>
    typeof member === 'number' ? (names[member] ?? '') : member;
  const namesOf = (member: ClusterMember): readonly string[] =>
    member === 'keeper' ? keepers : [nameOf(member)];
  const dataOf = (node: number): string => join(folder, nameOf(node), 'data');
  const copyOf = (node: number): string => join(folder, nameOf(node), 'copy');
  /** Returns the addresses that no earlier call has returned. */
  const newAddresses = async (): Promise<string[]> => {
    // The command `up` changes nothing if all nodes run, and prints the addresses.
    const all = valueIn((await run('up')).split('\n'), 'CLICKHOUSE_NODES').split(',');
    const added = all.filter((address) => !known.has(address));
    for (const address of added) known.add(address);
    return added;
  };
  const addReplica = async (...args: string[]): Promise<[name: string, address: string]> => {
    const name = (await run('add-replica', ...args)).trim();
    const [address = ''] = await newAddresses();
    return [name, address];
  };
  return {
    kill: async (member) => void (await run('kill', ...namesOf(member))),
    loseDisk: async (member) => {
      await run('kill', ...namesOf(member));
      for (const name of namesOf(member)) rmSync(join(folder, name, 'data'), { recursive: true });
    },
    start: async (...members) => void (await run('start', ...members.flatMap(namesOf))),
    pause: async (member) => void (await run('pause', ...namesOf(member))),
    resume: async (member) => void (await run('resume', ...namesOf(member))),
    saveData: (node) => copyFolder(dataOf(node), copyOf(node)),
    restoreData: (node) => copyFolder(copyOf(node), dataOf(node)),
    configure: async (node, xml) => {
      const directory = join(folder, nameOf(node), 'config.d');
      mkdirSync(directory, { recursive: true });
      writeFileSync(join(directory, 'test.xml'), xml);
      await run('restart', nameOf(node));
    },
    remove: async (node) => void (await run('remove', nameOf(node), '--restart')),
    replace: async (node, { keepName } = { keepName: false }) => {
      const removed = nameOf(node);
      await run('remove', removed);
      // Restarts the other nodes once, for the removal and for the addition.
      const [name, address] = await addReplica(keepName ? removed : removed.replace(/-.*/, ''), '--restart');
      names[node] = name;
      return address;
    },
    addReplica: async (shard) => {
      const [name, address] = await addReplica(String(shard));
      names.push(name);
      return address;
    },
    addShard: async (replicas, { restart } = { restart: true }) => {
      const options = ['--replicas', String(replicas), ...(restart ? ['--restart'] : [])];
      names.push(...(await run('add-shard', ...options)).trim().split('\n'));
      return await newAddresses();
    },
    restartOutdated: async () => void (await run('restart')),
    cut: async (one, other, how) => {
      await run('cut', nameOf(one), nameOf(other), ...(how === undefined ? [] : [`--${how}`]));
    },
    heal: async () => void (await run('heal')),
  };
}

function copyFolder(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
}

function valueIn(lines: readonly string[], name: string): string {
  return lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';
}

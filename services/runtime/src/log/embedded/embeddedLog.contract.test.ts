/** Runs the contract suite against the embedded log. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeLogContract } from '../log.contract.ts';
import type { Log } from '../log.ts';
import { type LogDatabase, openDatabase } from './database.ts';
import { type EmbeddedExtras, embeddedLogOn } from './embeddedLog.ts';

const directory = await mkdtemp(join(tmpdir(), 'questlog-contract-'));
const clock = { nowMs: Date.now(), now: () => clock.nowMs };
let current: (Log & EmbeddedExtras) | undefined;
let database: LogDatabase | undefined;

async function open(): Promise<Log> {
  database = openDatabase(directory);
  current = embeddedLogOn(database, { directory, clock });
  return current;
}

describeLogContract('the embedded log', {
  open,
  reopen: async (log) => {
    await log.close();
    return open();
  },
  compact: async () => {
    await current?.maintain();
    clock.nowMs += 25 * 60 * 60 * 1000;
    await current?.maintain();
  },
  truncate: async (_log, topic, partition, offset) => current?.truncate(topic, partition, offset),
  deleteCommits: async (group) => {
    database?.sqlite.prepare('DELETE FROM commits WHERE consumer_group = ?').run(group);
  },
  dispose: () => rm(directory, { recursive: true }),
});

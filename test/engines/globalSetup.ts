/** Finds or starts the engines before the first suite that needs Kafka, and prints the choice. */

import type { Engines } from '@questlog/runtime/log/kafka/testing/engines';
import { aBucket } from '@questlog/runtime/uploads/bucket.testing';
import type { TestProject } from 'vitest/node';
import { migratedTables } from '../migratedTables.ts';
import { endAfterTier } from '../tierEnds.ts';
import { detectCapabilities } from './capabilities.ts';
import { type Choice, chooseEngines, missingParts, PARTS, type Part } from './choice.ts';
import { keepEngines } from './keepEngines.ts';
import { type StartedEngines, s3In } from './startedEngines.ts';

interface EnginesOfTheRun {
  readonly engines: Engines | undefined;
  stop(): Promise<void>;
}

/** State that all tiers share, because every tier loads this module again. */
const run = globalThis as typeof globalThis & {
  questlogEngines?: Promise<EnginesOfTheRun>;
  questlogTiers?: number;
};

/**
 * Starts the engines. @returns a function that stops them.
 * @throws Error if the engines do not start, or if they are not available and `QUESTLOG_REQUIRE` names them.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  run.questlogTiers = (run.questlogTiers ?? 0) + 1;
  run.questlogEngines ??= openEngines();
  const { engines, stop } = await run.questlogEngines;
  project.provide('engines', engines);
  return endAfterTier(project, async () => {
    run.questlogTiers = (run.questlogTiers ?? 1) - 1;
    if (run.questlogTiers === 0) await stop();
  });
}

async function openEngines(): Promise<EnginesOfTheRun> {
  const { env } = process;
  const choice = chooseEngines(env, missingParts(env).length === 0 ? undefined : await detectCapabilities());
  if (choice.kind === 'none' && choice.isRefused) throw new Error(choice.line);
  console.log(choice.line);
  if (choice.kind === 'none') return { engines: undefined, stop: async () => {} };
  const started = await start(choice);
  const address = (part: Part): string => env[part] || (started?.addresses[part] ?? '');
  const server = env['QUESTLOG_S3_ENDPOINT'] === undefined ? started?.s3 : s3In(env);
  const engines: Engines = {
    kind: choice.kind,
    brokers: address('KAFKA_BROKERS'),
    registryUrl: address('SCHEMA_REGISTRY_URL'),
    clickhouseUrl: address('CLICKHOUSE_URL'),
    tables: await migratedTables(address('CLICKHOUSE_URL')),
    ...(started?.stackDir !== undefined && { stackDir: started.stackDir }),
    ...(server !== undefined && { s3: await aBucket(server) }),
  };
  return { engines, stop: async () => started?.stop() };
}

async function start(choice: Exclude<Choice, { kind: 'none' }>): Promise<StartedEngines | undefined> {
  if (choice.kind !== 'given') return keepEngines(choice.kind, PARTS);
  return choice.from && keepEngines(choice.from, choice.missing);
}

/** Before the first Kafka suite of a run: finds or starts the engines, and says in one line which and why. */
import type { Engines } from '@questlog/runtime/log/kafka/testing/engines';
import type { TestProject } from 'vitest/node';
import { type Choice, chooseEngines, missingParts, PARTS, type Part } from './choice.ts';
import { keepEngines } from './keepEngines.ts';
import type { StartedEngines } from './startedEngines.ts';
import { lookAround } from './surroundings.ts';

/**
 * @returns what stops them again.
 * @throws where there are none and `QUESTLOG_REQUIRE` asks for them, or when they do not start.
 */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const { env } = process;
  const choice = chooseEngines(env, missingParts(env).length === 0 ? undefined : await lookAround());
  if (choice.kind === 'none' && choice.isRefused) throw new Error(choice.line);
  console.log(choice.line);
  if (choice.kind === 'none') {
    project.provide('engines', undefined);
    return undefined;
  }
  const started = await start(choice);
  const { oneBroker, stackDir } = started ?? {};
  const address = (part: Part): string => env[part] || (started?.addresses[part] ?? '');
  const engines: Engines = {
    kind: choice.kind,
    brokers: address('KAFKA_BROKERS'),
    registryUrl: address('SCHEMA_REGISTRY_URL'),
    clickhouseUrl: address('CLICKHOUSE_URL'),
    ...(oneBroker !== undefined && { oneBroker }),
    ...(stackDir !== undefined && { stackDir }),
  };
  project.provide('engines', engines);
  return started?.stop;
}

async function start(choice: Exclude<Choice, { kind: 'none' }>): Promise<StartedEngines | undefined> {
  if (choice.kind !== 'given') return keepEngines(choice.kind, PARTS);
  return choice.from && keepEngines(choice.from, choice.missing);
}

/** Suites that break brokers, one after the other on one stack: two cores cannot carry a second stack. */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { describe } from 'vitest';
import { ownStack } from '../stack/ownStack.ts';
import { killedBrokers } from './killedBrokers.contract.ts';
import { killedEngines } from './killedEngines.contract.ts';
import { leaderless } from './leaderless.contract.ts';
import { seedOfRun } from './seeded.ts';

const seed = seedOfRun();

describeKafka('a stack that is broken', (engines) => {
  const own = ownStack(engines);
  describe('while brokers are killed, the log', () => killedBrokers(own));
  describe('a partition without a leader', () => leaderless(own));
  describe(`while engines are killed under load (QUESTLOG_SEED=${seed}), two of each service`, () =>
    killedEngines(own, seed));
});

/** Runs the suites that break brokers in turn on one stack, because two cores cannot run a second stack. */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { describe } from 'vitest';
import { ownStack } from '../stack/ownStack.ts';
import { shortForm } from './campaign/shortForm.contract.ts';
import { killedBrokers } from './killedBrokers.contract.ts';
import { leaderless } from './leaderless.contract.ts';
import { seedOfRun } from './seeded.ts';
import { sickPartition } from './sickPartition.contract.ts';

const seed = seedOfRun();

describeKafka('a stack that is broken', (engines) => {
  const own = ownStack(engines);
  describe('while brokers are killed, the log', () => killedBrokers(own));
  describe('a partition without a leader', () => leaderless(own));
  describe('a stopped broker', () => sickPartition(own));
  describe(`the short form of the campaign (QUESTLOG_SEED=${seed})`, () => shortForm(own, seed));
});

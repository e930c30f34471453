/**
 * The duties of every log, as tests that run against each adapter: code above the port is proven on the small one and
 * trusted on the other. Only the port is used, and only what Kafka can promise is asked.
 */
import { afterAll, beforeAll, describe } from 'vitest';
import { describeAppends } from './contract/appends.contract.ts';
import { describeCuts } from './contract/cuts.contract.ts';
import { describeGroups } from './contract/groups.contract.ts';
import type { LogHarness, Subject } from './contract/harness.ts';
import { describeRebalances } from './contract/rebalances.contract.ts';
import { describeTails } from './contract/tails.contract.ts';
import { describeTransactions } from './contract/transactions.contract.ts';
import type { Log } from './log.ts';

export type { LogHarness } from './contract/harness.ts';

type Duty = (subject: Subject) => void;

const DUTIES: readonly Duty[] = [
  describeAppends,
  describeTails,
  describeGroups,
  describeRebalances,
  describeTransactions,
];

/** @param duties some of them, where others are tested with another harness. */
export function describeLogContract(
  name: string,
  harness: LogHarness,
  duties: readonly Duty[] = harness.cut === undefined ? DUTIES : [...DUTIES, describeCuts],
): void {
  describe(`${name} keeps the contract of the log`, () => {
    let log: Log | undefined;
    const subject: Subject = {
      harness,
      log: () => {
        if (log === undefined) throw new Error('the log is not open');
        return log;
      },
      reopen: async (reopen) => {
        log = await reopen(subject.log());
      },
    };

    beforeAll(async () => {
      log = await harness.open();
    });

    afterAll(async () => {
      await log?.close();
      await harness.dispose();
    });

    for (const describeDuty of duties) describeDuty(subject);
  });
}

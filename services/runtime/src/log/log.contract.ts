/** Contract tests of the log, which every adapter must pass. They require only guarantees that Kafka gives. */
import { afterAll, beforeAll, describe } from 'vitest';
import { describeAppends } from './contract/appends.contract.ts';
import { describeGroups } from './contract/groups.contract.ts';
import type { LogHarness, Subject } from './contract/harness.ts';
import { describeRebalances } from './contract/rebalances.contract.ts';
import { describeTails } from './contract/tails.contract.ts';
import { describeTransactions } from './contract/transactions.contract.ts';
import { describeTruncation } from './contract/truncation.contract.ts';
import type { Log } from './log.ts';

export type { LogHarness } from './contract/harness.ts';

type ContractPart = (subject: Subject) => void;

const PARTS: readonly ContractPart[] = [
  describeAppends,
  describeTails,
  describeGroups,
  describeRebalances,
  describeTransactions,
];

export function describeLogContract(
  name: string,
  harness: LogHarness,
  parts: readonly ContractPart[] = harness.truncate === undefined ? PARTS : [...PARTS, describeTruncation],
): void {
  describe(`${name} fulfills the log contract`, () => {
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

    for (const describePart of parts) describePart(subject);
  });
}

/** Runs the contract suite against Kafka. */
import { randomUUID } from 'node:crypto';
import { silentLogger } from '../../process/logger.ts';
import { until } from '../contract/harness.ts';
import { describeLogContract } from '../log.contract.ts';
import type { Log } from '../log.ts';
import { openKafkaLog } from './kafkaLog.ts';
import { deleteTopics } from './testing/deleteTopics.ts';
import { describeKafka } from './testing/engines.ts';
import { openGroupView } from './testing/groupMembers.ts';

describeKafka('on Kafka', ({ brokers }) => {
  const prefix = `contract-${randomUUID()}-`;

  function open(): Promise<Log> {
    return openKafkaLog({
      connection: { brokers: brokers.split(','), clientId: 'questlog-contract' },
      prefix,
      replicationFactor: -1,
      logger: silentLogger,
    });
  }

  describeLogContract('the log on Kafka', {
    open,
    reopen: async (log) => {
      await log.close();
      return open();
    },
    deleteCommits: async (group) => {
      const view = await openGroupView(brokers);
      // The deletion is retried, because a stopped member stays in the group for a moment.
      await until(() =>
        view.deleteGroups([prefix + group]).then(
          () => true,
          () => false,
        ),
      );
      await view.close();
    },
    dispose: () => deleteTopics(brokers, prefix),
  });
});

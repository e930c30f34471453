/** Wraps a log and a store so that a test can make them fail or make the projector seem to lag. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { GROUPS } from '@questlog/schemas/topics/topics';

export function withFailingCommits(log: Log, outage: { commitsToFail: number }): Log {
  return withMethods(log, {
    transactionalProducer: async (id) => {
      const producer = await log.transactionalProducer(id);
      return {
        close: () => producer.close(),
        commit: async (transaction) => {
          if (outage.commitsToFail === 0) return await producer.commit(transaction);
          outage.commitsToFail--;
          throw new Unavailable('the log takes no transaction');
        },
      };
    },
  });
}

export function withOutage(store: Store, outage: { readonly isOn: boolean }): Store {
  return {
    ...store,
    query: async (sql, params, settings) => {
      if (outage.isOn) throw new Unavailable('an outage');
      return await store.query(sql, params, settings);
    },
  };
}

/** Makes the projector seem to have stopped. @param held offsets by `topic/partition` */
export function withProjectorHeld(log: Log, held: ReadonlyMap<string, number>): Log {
  return withMethods(log, {
    committed: async (group, topic) => {
      const committed = await log.committed(group, topic);
      if (group === GROUPS.link) return committed;
      return committed.map((known, partition) => {
        const offset = held.get(`${topic}/${partition}`);
        return known && { ...known, offset: Math.min(known.offset, offset ?? known.offset) };
      });
    },
  });
}

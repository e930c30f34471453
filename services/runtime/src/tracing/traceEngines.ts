/** Adds spans to the appends of a log, and to the statements of a ClickHouse client. */
import type { Store } from '../clickhouse/store.ts';
import { recordBytes } from '../log/checkRecords.ts';
import type { Log, NewRecord } from '../log/log.ts';
import { messagingAttributes, type NewSpan, TRACEPARENT_HEADER, type Tracing } from './tracing.ts';

interface TracedEngines {
  readonly log: Log;
  readonly store: Store;
}

/** Replaces methods of `engines.log` with traced methods. Returns a copy of `engines` whose ClickHouse client is traced. */
export function traceEngines<T extends TracedEngines>(engines: T, tracing: Tracing): T {
  traceLog(engines.log, tracing);
  return { ...engines, store: traceStore(engines.store, tracing) };
}

/** Starts a span for each append and each transaction. Adds the span's context to the headers of the records. */
function traceLog(log: Log, tracing: Tracing): void {
  const append = log.append.bind(log);
  log.append = (topic, partition, records) => {
    if (!tracing.isActive()) return append(topic, partition, records);
    return tracing.inSpan(appendSpan(topic, partition, records.length), (traceparent) =>
      append(topic, partition, withTraceparent(records, traceparent)),
    );
  };
  const open = log.transactionalProducer.bind(log);
  log.transactionalProducer = async (transactionalId) => {
    const producer = await open(transactionalId);
    const commit = producer.commit.bind(producer);
    producer.commit = ({ appends, commits = [] }) => {
      const [first] = appends;
      if (first === undefined || !tracing.isActive()) return commit({ appends, commits });
      const records = appends.reduce((sum, one) => sum + one.records.length, 0);
      return tracing.inSpan(appendSpan(first.topic, first.partition, records), (traceparent) => {
        const traced = appends.map((one) => ({ ...one, records: withTraceparent(one.records, traceparent) }));
        return commit({ appends: traced, commits });
      });
    };
    return producer;
  };
}

/** Returns a client that adds a span to each query and each insert. */
function traceStore(store: Store, tracing: Tracing): Store {
  const { forPartition } = store;
  return {
    ...store,
    ...(forPartition && { forPartition: (...of) => traceStore(forPartition(...of), tracing) }),
    query: (sql, params, settings) => {
      if (!tracing.isActive()) return store.query(sql, params, settings);
      const operation = /^\s*(\w+)/.exec(sql)?.[1] ?? 'SELECT';
      return tracing.inSpan(statementSpan(store, operation), () => store.query(sql, params, settings));
    },
    insert: (insert) => {
      if (!tracing.isActive()) return store.insert(insert);
      return tracing.inSpan(statementSpan(store, 'INSERT', insert.table), () => store.insert(insert));
    },
  };
}

function appendSpan(topic: string, partition: number, records: number): NewSpan {
  const attributes = messagingAttributes('append', topic, partition, records);
  return { name: `append ${topic}`, kind: 'producer', attributes };
}

/**
 * Maximum size of a record that gets a trace header. With the header, the record is still below the limit of every topic. A
 * larger record gets no header, because the header could exceed the limit.
 */
const MAX_TRACED_BYTES = 1024 * 1024 - 128;

function withTraceparent(
  records: readonly NewRecord[],
  traceparent: string | undefined,
): readonly NewRecord[] {
  if (traceparent === undefined) return records;
  return records.map((record) => {
    if (recordBytes(record) > MAX_TRACED_BYTES) return record;
    return { ...record, headers: { ...record.headers, [TRACEPARENT_HEADER]: traceparent } };
  });
}

/** Returns a span without the text of the statement, which can contain data. */
function statementSpan({ database }: Store, operation: string, table?: string): NewSpan {
  return {
    name: table === undefined ? operation : `${operation} ${table}`,
    kind: 'client',
    attributes: {
      'db.system.name': 'clickhouse',
      'db.namespace': database,
      'db.operation.name': operation,
      ...(table !== undefined && { 'db.collection.name': table }),
    },
  };
}

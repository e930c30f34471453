/** A kafkajs client whose network a test can cut: as for a process that is killed, or whose machine is gone. */
import { createConnection, type Socket } from 'node:net';
import kafkajs, { type Kafka } from 'kafkajs';
import type { Log } from '../../log.ts';
import type { KafkaCatalog } from '../topics/catalog.ts';

export interface SeverableKafka {
  readonly kafka: Kafka;
  /** Every connection breaks, and no new one succeeds. */
  sever(): void;
  mend(): void;
}

export function severableKafka(brokers: string): SeverableKafka {
  const sockets = new Set<Socket>();
  let isSevered = false;
  const kafka = new kafkajs.Kafka({
    brokers: brokers.split(','),
    clientId: 'questlog-severable',
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 10, multiplier: 2, factor: 0.2, maxRetryTime: 1000, retries: 11 },
    socketFactory: ({ host, port, onConnect }) => {
      // Port 1: nobody listens there.
      const socket = createConnection({ host, port: isSevered ? 1 : port }, onConnect);
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      return socket;
    },
  });
  return {
    kafka,
    sever: () => {
      isSevered = true;
      for (const socket of sockets) socket.destroy(new Error('severed'));
    },
    mend: () => {
      isSevered = false;
    },
  };
}

/** The topics and offsets as a log knows them that is not severed. */
export function catalogOf(log: Log): KafkaCatalog {
  return {
    limits: async (topic) => {
      const partitions = await log.partitionCount(topic);
      return { topic, partitions, maxBatchBytes: 1_000_000, isCompacted: false };
    },
    ranges: (topic) => log.offsetRanges(topic),
    partitionsThere: async () => [],
    forget: () => undefined,
    committed: (group, topic) => log.committed(group, topic),
  };
}

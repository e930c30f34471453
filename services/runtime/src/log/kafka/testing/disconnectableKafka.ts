/** A kafkajs client whose network a test can disconnect. This simulates a killed process or a machine without power. */
import { createConnection, type Socket } from 'node:net';
import kafkajs, { type Kafka } from 'kafkajs';
import type { Log } from '../../log.ts';
import type { KafkaCatalog } from '../topics/catalog.ts';

export interface DisconnectableKafka {
  readonly kafka: Kafka;
  /** Closes all connections and prevents new connections. */
  disconnect(): void;
  reconnect(): void;
}

export function disconnectableKafka(brokers: string): DisconnectableKafka {
  const sockets = new Set<Socket>();
  let isDisconnected = false;
  const kafka = new kafkajs.Kafka({
    brokers: brokers.split(','),
    clientId: 'questlog-severable',
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 10, multiplier: 2, factor: 0.2, maxRetryTime: 1000, retries: 11 },
    socketFactory: ({ host, port, onConnect }) => {
      // No process listens on port 1.
      const socket = createConnection({ host, port: isDisconnected ? 1 : port }, onConnect);
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      return socket;
    },
  });
  return {
    kafka,
    disconnect: () => {
      isDisconnected = true;
      for (const socket of sockets) socket.destroy(new Error('severed'));
    },
    reconnect: () => {
      isDisconnected = false;
    },
  };
}

/** Returns the topics and offsets of a log that stays connected. */
export function catalogOf(log: Log): KafkaCatalog {
  return {
    limits: async (topic) => {
      const partitions = await log.partitionCount(topic);
      return { topic, partitions, maxBatchBytes: 1_000_000, isCompacted: false };
    },
    ranges: (topic) => log.offsetRanges(topic),
    actualPartitionCounts: async () => [],
    evict: () => undefined,
    committed: (group, topic) => log.committed(group, topic),
  };
}

/**
 * A bug tracker that consumes `questlog.linked-events.v1` and prints the events of a report after each change. kafkajs reads
 * only committed records by default, so the tracker receives each change of a link one time.
 */
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry';
import kafkajs from 'kafkajs';
import { openTrails } from './trail.ts';

const {
  KAFKA_BROKERS = 'localhost:9092',
  SCHEMA_REGISTRY_URL = 'http://localhost:8081',
  KAFKA_GROUP = 'example-bug-tracker',
  QUESTLOG_PREFIX = '',
  QUESTLOG_PROJECT: projectId,
  TRAIL_FILE = fileURLToPath(new URL('.data/kafka.json', import.meta.url)),
} = process.env;

// kafkajs has no zstd codec, so this file adds the codec of Node.
const decompress = promisify(zstdDecompress);
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({
  compress: (encoder) => promisify(zstdCompress)(encoder.buffer),
  decompress: (bytes) => decompress(bytes),
});

const registry = new SchemaRegistry({ host: SCHEMA_REGISTRY_URL });
const kafka = new kafkajs.Kafka({ clientId: KAFKA_GROUP, brokers: KAFKA_BROKERS.split(',') });
const consumer = kafka.consumer({ groupId: KAFKA_GROUP });
const trails = openTrails(TRAIL_FILE);

await consumer.connect();
await consumer.subscribe({ topic: `${QUESTLOG_PREFIX}questlog.linked-events.v1`, fromBeginning: true });
await consumer.run({
  // Saves the changes before kafkajs commits the offsets. `apply` ignores a record that arrives again after a crash.
  eachBatch: async ({ batch }) => {
    const changed = new Set<string>();
    for (const { value } of batch.messages) {
      if (value === null) continue;
      const link = await registry.decode(value);
      // Skips links of other projects, because two projects can have reports with the same id.
      if (projectId !== undefined && link.projectId !== projectId) continue;
      const event = { ...link.event, occurredAt: isoOf(link.event.occurredAt) };
      if (trails.apply({ ...link, event })) changed.add(link.reportId);
    }
    for (const reportId of changed) trails.print(reportId);
    if (changed.size > 0) trails.save();
  },
});

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void consumer.disconnect());

/** A `Date` stores only milliseconds, so the last three digits of the microseconds are added as text. */
function isoOf(micros: number): string {
  const millis = Math.floor(micros / 1_000);
  const rest = String(micros - millis * 1_000).padStart(3, '0');
  return `${new Date(millis).toISOString().slice(0, -1)}${rest}Z`;
}

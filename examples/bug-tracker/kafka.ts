/**
 * A bug tracker on Kafka. It consumes `questlog.linked-events.v1` and prints the trail of a report after each change of the
 * trail. The consumer reads only committed records (the default of kafkajs), so it receives each change of a link once.
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

// kafkajs has no zstd codec, so the example adds the codec of Node.
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
  // Saves the trails before kafkajs commits the offsets. If a record is read again, `apply` ignores the record because its version
  // is not newer than the stored version.
  eachBatch: async ({ batch }) => {
    const changed = new Set<string>();
    for (const { value } of batch.messages) {
      if (value === null) continue;
      const link = await registry.decode(value);
      // Report ids are unique only inside a project.
      if (projectId !== undefined && link.projectId !== projectId) continue;
      const event = { ...link.event, occurredAt: isoOf(link.event.occurredAt) };
      if (trails.apply({ ...link, event })) changed.add(link.reportId);
    }
    for (const reportId of changed) trails.print(reportId);
    if (changed.size > 0) trails.save();
  },
});

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void consumer.disconnect());

/** Formats a time in microseconds since 1970. Adds the last three digits, because a `Date` stores only milliseconds. */
function isoOf(micros: number): string {
  const millis = Math.floor(micros / 1_000);
  const rest = String(micros - millis * 1_000).padStart(3, '0');
  return `${new Date(millis).toISOString().slice(0, -1)}${rest}Z`;
}

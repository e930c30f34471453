/**
 * Schema registry of the embedded mode. The schemas are records of a compacted topic, as in Confluent's topic `_schemas`. The
 * id of a schema is the offset of its record plus one.
 */
import { compatibilityFault } from '@questlog/schemas/topics/compatibility';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log } from '../log/log.ts';
import { StartRefused } from '../process/errors.ts';
import type { SchemaRegistry } from './registry.ts';

interface Entry {
  readonly subject: string;
  readonly schema: string;
}

export async function openLogRegistry(log: Log): Promise<SchemaRegistry> {
  const byId = new Map<number, Entry>();
  const tail = await log.tail({
    topic: TOPICS.schemas,
    from: 'earliest',
    onBatch: (batch) => {
      for (const { offset, value } of batch.records) {
        if (value !== null) byId.set(offset + 1, entryOf(value, offset));
      }
    },
  });
  await tail.waitForOffsets(await log.endOffsets(TOPICS.schemas));
  await tail.close();
  return {
    register: async (subject, schema, compatibility) => {
      const earlier = [...byId].filter(([, entry]) => entry.subject === subject);
      for (const [id, entry] of earlier) if (entry.schema === schema) return id;
      for (const [id, entry] of earlier) {
        const fault = compatibilityFault(compatibility, entry.schema, schema);
        if (fault !== undefined)
          throw new StartRefused(`${subject} was written with schema ${id}, and ${fault}`);
      }
      // Each schema has its own key, so that Kafka's compaction keeps all schemas. Old records need old schemas.
      const value = Buffer.from(JSON.stringify({ subject, schema }), 'utf8');
      const { baseOffset } = await log.append(TOPICS.schemas, 0, [{ key: `${subject}/${byId.size}`, value }]);
      byId.set(baseOffset + 1, { subject, schema });
      return baseOffset + 1;
    },
    schemaById: async (id) => byId.get(id)?.schema,
  };
}

function entryOf(value: Buffer, offset: number): Entry {
  let cause: unknown;
  try {
    const entry: unknown = JSON.parse(value.toString('utf8'));
    if (isEntry(entry)) return entry;
  } catch (error) {
    cause = error;
  }
  throw new StartRefused(`the record of ${TOPICS.schemas}/0 at offset ${offset} is not a valid schema`, {
    cause,
  });
}

function isEntry(value: unknown): value is Entry {
  if (typeof value !== 'object' || value === null || !('subject' in value && 'schema' in value)) return false;
  return typeof value.subject === 'string' && typeof value.schema === 'string';
}

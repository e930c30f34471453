/** `docs/reference/topics.md`: the topics, what keys them, how they are cleaned, and the Avro schemas of their records. */
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { directoryEntry } from '@questlog/schemas/topics/directoryEntry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import {
  APPEND_ID_HEADER,
  GROUPS,
  TOPICS,
  type TopicDefinition,
  topicDefinitions,
} from '@questlog/schemas/topics/topics';
import { code, fence, page, table } from './markdown.ts';

/** What the definitions do not hold. A topic that is missing here stops the generator. */
const RECORDS: Readonly<Record<string, { key: string; meaning: string }>> = {
  [TOPICS.events]: {
    key: 'tenant',
    meaning: 'What one request had accepted for one partition, whole or not at all.',
  },
  [TOPICS.reportLinks]: {
    key: 'tenant',
    meaning:
      'A bug report names events or a session, is retracted or retried, or did not get what it named; the first record of an id in the log wins.',
  },
  [TOPICS.linkedEvents]: {
    key: 'tenant',
    meaning: 'A report and an event, whole, belong together, or no longer do.',
  },
  [TOPICS.linkerState]: {
    key: 'entry',
    meaning: 'What the linker of a partition waits for; only the linker reads it.',
  },
  [TOPICS.sessions]: {
    key: 'tenant',
    meaning: 'A session of a project; the first record of an id in the log wins.',
  },
  [TOPICS.deadLetters]: {
    key: 'key of the source',
    meaning: 'A record that could not be processed, as it was, with where it came from and why.',
  },
  [TOPICS.directory]: {
    key: '`tenant:<id>`, `project:<id>` or `token:<id>`',
    meaning: 'Tenants, projects and tokens; a tombstone revokes.',
  },
  [TOPICS.schemas]: {
    key: 'schema',
    meaning: 'The schemas by their ids, where no schema registry is configured.',
  },
};

const CONTRACTS: readonly Pick<MessageContract<unknown>, 'topic' | 'subject' | 'schema'>[] = [
  eventsAccepted,
  reportLinks,
  linkedEvents,
  linkerState,
  sessionRegistered,
  deadLetter,
  directoryEntry,
];

const DAY_MS = 24 * 60 * 60 * 1000;
const MIB = 1024 * 1024;
const WIDTH = 100;

export function topicsPage(): string {
  return page('Topics', 'schemas/src/topics', [
    "Records are Avro in Confluent's wire format: a zero byte, the schema's id as 4 bytes big-endian, the Avro body. That\nholds for the embedded log too.",
    table(
      ['topic', 'record', 'key', 'partitions', 'cleanup', 'largest record'],
      topicDefinitions(0).map(topicRow),
    ),
    `The partition of a tenant's record is \`(murmur2(tenant) + lane) mod partitions\`: Kafka's own partitioner, plus a lane\nthat spreads a large tenant over several partitions. The header \`${APPEND_ID_HEADER}\` (a UUID) makes a repeated append\nrecognisable without decoding the record.`,
    `Consumer groups: ${Object.values(GROUPS).map(code).join(', ')}.`,
    ...CONTRACTS.flatMap(({ topic, subject, schema }) => [
      `## ${topic}`,
      `Subject \`${subject}\`.`,
      fence('json', printed(JSON.parse(schema))),
    ]),
  ]);
}

function topicRow({ name, partitions, cleanup, maxRecordBytes }: TopicDefinition): string[] {
  const record = RECORDS[name];
  if (record === undefined)
    throw new Error(`${name}: test/tidy/reference/topicsPage.ts does not say what it holds`);
  return [
    code(name),
    record.meaning,
    record.key,
    // Asked for none, a topic that has its own count keeps it.
    partitions === 0 ? 'as deployed' : String(partitions),
    cleanup.policy === 'compact' ? 'compact' : `delete after ${cleanup.retentionMs / DAY_MS} days`,
    `${maxRecordBytes / MIB} MiB`,
  ];
}

/** JSON with every array and object that fits on one line on one line. */
function printed(value: unknown, indent = ''): string {
  const flat = oneLine(value);
  if (indent.length + flat.length <= WIDTH || typeof value !== 'object' || value === null) return flat;
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    return `[\n${value.map((item) => inner + printed(item, inner)).join(',\n')}\n${indent}]`;
  }
  const fields = Object.entries(value).map(([name, item]) => `${inner}"${name}": ${printed(item, inner)}`);
  return `{\n${fields.join(',\n')}\n${indent}}`;
}

function oneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, item]) => `"${name}": ${oneLine(item)}`);
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
}

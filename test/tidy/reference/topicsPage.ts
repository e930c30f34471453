/** `docs/reference/topics.md`: the topics, what keys them, how they are cleaned, and the Avro schemas of their records. */
import { auditEntry } from '@questlog/schemas/topics/auditEntry';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import {
  APPEND_ID_HEADER,
  GROUPS,
  REROUTE_GROUP,
  TOPICS,
  type TopicDefinition,
  topicDefinitions,
} from '@questlog/schemas/topics/topics';
import { idlOf } from './avroIdl.ts';
import { code, fence, page } from './markdown.ts';

/** The definitions do not hold this. A topic that is missing here stops the generator. */
const RECORDS: Readonly<Record<string, { key: string; meaning: string }>> = {
  [TOPICS.events]: {
    key: 'tenant',
    meaning: 'The events that one request had accepted for one partition.',
  },
  [TOPICS.reportLinks]: {
    key: 'tenant',
    meaning:
      'A bug report is filed, retracted or retried, or lacks a named event. The first record of an id wins.',
  },
  [TOPICS.linkedEvents]: {
    key: 'tenant',
    meaning: 'A report and a whole event are linked, or no longer are.',
  },
  [TOPICS.linkerState]: {
    key: 'entry',
    meaning: 'The linker’s state; only the linker reads it.',
  },
  [TOPICS.sessions]: {
    key: 'tenant',
    meaning: 'A session of a project. The first record of an id wins.',
  },
  [TOPICS.deadLetters]: {
    key: 'as the source',
    meaning:
      'A record that could not be processed, unchanged, with the reason; too large a one without value and headers. Behind it, without a value, what an operator decided about it.',
  },
  [TOPICS.audit]: {
    key: 'none',
    meaning:
      'What an operator asked to change, and behind it how that was answered; refused credentials, counted.',
  },
  [TOPICS.directory]: {
    key: '`<kind>:<id>`',
    meaning:
      'Tenants, projects, tokens and their uses, erasures, the secret of ids and cursors; a tombstone removes.',
  },
  [TOPICS.schemas]: {
    key: 'schema',
    meaning: 'Schemas by id, where no registry is configured.',
  },
};

/** Not among the definitions: the adapter makes it for itself. */
const LOG_LINE =
  '- `questlog.log.v1` (on Kafka only; 1 partition; compacted; 1 KiB a record): The log’s id, and how many partitions each topic was made with.';

/** Only Questlog itself reads the linker's state and the directory. */
const CONTRACTS: readonly Pick<MessageContract<unknown>, 'topic' | 'schema'>[] = [
  eventsAccepted,
  reportLinks,
  linkedEvents,
  sessionRegistered,
  deadLetter,
  auditEntry,
];

const DAY_MS = 24 * 60 * 60 * 1000;
const MIB = 1024 * 1024;

export function topicsPage(): string {
  const shown = new Set<string>();
  return page('Topics', 'schemas/src/topics', [
    "Records are Avro in Confluent's wire format, also in the embedded log: a zero byte, the schema's id as 4 bytes\nbig-endian, the Avro body.",
    [...topicDefinitions(0).map(topicLine), LOG_LINE].join('\n'),
    `The partition of a tenant's record is \`(murmur2(tenant) + lane) mod partitions\`: Kafka's own partitioner, plus a lane\nthat spreads a large tenant. The header \`${APPEND_ID_HEADER}\` (a UUID) identifies a repeated append.`,
    `Consumer groups: ${[...Object.values(GROUPS), REROUTE_GROUP].map(code).join(', ')}.`,
    "The schemas below are in the notation of Avro's IDL; `timestamp_us` is a long of microseconds, and a field with `?` is\nnull unless set. A type is shown once. [schemas/released](../../schemas/released) holds all as JSON, and so does the\nregistry; a subject is the topic with `-value`. Generate classes from [schemas/readers](../../schemas/readers/README.md), where no name\nis in two schemas.",
    ...CONTRACTS.flatMap(({ topic, schema }) => [
      `## ${topic}`,
      fence('avdl', idlOf(JSON.parse(schema), shown).join('\n')),
    ]),
  ]);
}

function topicLine({ name, partitions, cleanup, maxRecordBytes }: TopicDefinition): string {
  const record = RECORDS[name];
  if (record === undefined)
    throw new Error(`${name}: test/tidy/reference/topicsPage.ts does not say what it holds`);
  const traits = [
    `key: ${record.key}`,
    // Asked for none, a topic that has its own count keeps it.
    ...(partitions === 0 ? [] : [`${partitions} partition`]),
    cleanup.policy === 'compact' ? 'compacted' : `${cleanup.retentionMs / DAY_MS} days`,
    `${maxRecordBytes / MIB} MiB a record`,
  ];
  return `- ${code(name)} (${traits.join('; ')}): ${record.meaning}`;
}

/** `docs/reference/topics.md`: the topics with key, cleanup, and maximum record size. */
import {
  APPEND_ID_HEADER,
  GROUPS,
  REROUTE_GROUP,
  TOPICS,
  type TopicDefinition,
  topicDefinitions,
  WRITERS_GROUP,
} from '@questlog/schemas/topics/topics';
import { code, page, table } from './markdown.ts';

/** The definitions do not hold this. A topic that is missing here stops the generator. */
const RECORDS: Readonly<Record<string, { key: string; meaning: string }>> = {
  [TOPICS.events]: {
    key: 'tenant',
    meaning: 'Accepted events of one request for one partition.',
  },
  [TOPICS.reportLinks]: {
    key: 'tenant',
    meaning:
      'A report was filed, retracted, or retried, or a named event is missing. The first record of an id wins.',
  },
  [TOPICS.linkedEvents]: {
    key: 'tenant',
    meaning: 'A report and a complete event were linked or unlinked.',
  },
  [TOPICS.linkerState]: {
    key: 'entry',
    meaning: 'State of the linker, for its own use.',
  },
  [TOPICS.sessions]: {
    key: 'tenant',
    meaning: 'A registered session. The first record of an id wins.',
  },
  [TOPICS.deadLetters]: {
    key: 'as in the source',
    meaning:
      'A record that could not be processed, with the reason; without value and headers if it is too large. Later records without a value are operators’ decisions about it.',
  },
  [TOPICS.audit]: {
    key: 'none',
    meaning: 'A requested change of an operator, then its result; counts of rejected credentials.',
  },
  [TOPICS.directory]: {
    key: '`<kind>:<id>`',
    meaning:
      'Tenants, projects, tokens and their last use, erasures, and the secret for ids and cursors. A tombstone deletes an entry.',
  },
  [TOPICS.schemas]: {
    key: 'schema',
    meaning: 'Schemas by id, if no registry is configured.',
  },
};

/** The Kafka adapter creates this topic, so that the definitions do not contain it. */
const LOG_ROW = [
  code('questlog.log.v1'),
  'none',
  '1',
  'compacted',
  '1 KiB',
  'On Kafka only: the id of the log, and the original number of partitions of each topic.',
];

const DAY_MS = 24 * 60 * 60 * 1000;
const MIB = 1024 * 1024;

export function topicsPage(): string {
  return page('Topics', 'schemas/src/topics', [
    "Records on Kafka and in the embedded log have Confluent's wire format for Avro: a zero byte, the schema id in 4 bytes (big-endian), and\nthe Avro body.",
    table(
      ['topic', 'key', 'partitions', 'kept', 'maximum record', 'records'],
      [...topicDefinitions(0).map(topicRow), LOG_ROW],
    ),
    `The partition of a record is \`(murmur2(tenant) + lane) mod partitions\`. Sessions of a large tenant have
different lanes, so that the tenant uses several partitions. Sessions of all other tenants have lane 0. The header \`${APPEND_ID_HEADER}\` (a UUID) identifies duplicate appends. Records of traced requests also have the header \`traceparent\`.`,
    `The consumer groups are ${[...Object.values(GROUPS), REROUTE_GROUP, WRITERS_GROUP].map(code).join(', ')}.`,
    'The subject of a schema is the name of the topic with the suffix `-value`. The registry and [schemas/released](../../schemas/released) have\nthe schemas. To read the schemas or to generate classes, use the copies in [schemas/readers](../../schemas/readers/README.md), in which each\nrecord type has a unique name.',
  ]);
}

function topicRow({ name, partitions, cleanup, maxRecordBytes }: TopicDefinition): string[] {
  const record = RECORDS[name];
  if (record === undefined)
    throw new Error(`${name}: test/tidy/reference/topicsPage.ts does not describe its records`);
  return [
    code(name),
    record.key,
    // A topic that requests 0 partitions gets the number that the deployment configures.
    partitions === 0 ? 'configured' : String(partitions),
    cleanup.policy === 'compact' ? 'compacted' : `${cleanup.retentionMs / DAY_MS} days`,
    `${maxRecordBytes / MIB} MiB`,
    record.meaning,
  ];
}

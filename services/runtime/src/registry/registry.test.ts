import { frame, messageContract, parseSchema } from '@questlog/schemas/topics/contract';
import { expect, test } from 'vitest';
import { aLog, ManualClock, topicSpec } from '../log/embedded/testing/testLog.ts';
import { Invalid, StartRefused, Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { MAX_CACHED_SCHEMAS, SchemaCache } from './confluentRegistry.ts';
import { openLogRegistry } from './logRegistry.ts';
import { createCodec, type SchemaRegistry } from './registry.ts';
import { openTailDecoder } from './tailDecoder.ts';

interface Note {
  readonly text: string;
}

const fields = [{ name: 'text', type: 'string' }];
const note = messageContract<Note>('notes', { name: 'Note', fields });
/** Contract of the next version, which has one more field with a default. */
const tagged = messageContract<Note & { tag: string }>('notes', {
  name: 'Note',
  fields: [...fields, { name: 'tag', type: 'string', default: 'none' }],
});
const other = JSON.stringify({ type: 'record', name: 'Other', fields: [{ name: 'count', type: 'long' }] });

/** Registry that a test can make unavailable. */
class Registry implements SchemaRegistry {
  readonly schemas: string[] = [];
  isAway = false;
  lookups = 0;

  async register(_subject: string, schema: string): Promise<number> {
    if (!this.schemas.includes(schema)) this.schemas.push(schema);
    return this.schemas.indexOf(schema);
  }

  async schemaById(id: number): Promise<string | undefined> {
    this.lookups++;
    if (this.isAway) throw new Unavailable('the registry is away');
    return this.schemas[id];
  }
}

async function codecs() {
  const registry = new Registry();
  return {
    registry,
    older: await createCodec(registry, note),
    newer: await createCodec(registry, tagged),
  };
}

test('versions of one message read each other', async () => {
  const { older, newer } = await codecs();
  expect(await newer.decode(older.encode({ text: 'a' }))).toMatchObject({ text: 'a', tag: 'none' });
  expect(await older.decode(newer.encode({ text: 'b', tag: 't' }))).toMatchObject({ text: 'b' });
});

test('a record waits while the registry is unavailable, and is read afterwards', async () => {
  const { registry, older, newer } = await codecs();
  const value = newer.encode({ text: 'b', tag: 't' });
  registry.isAway = true;
  await expect(older.decode(value)).rejects.toBeInstanceOf(Unavailable);
  registry.isAway = false;
  expect(await older.decode(value)).toMatchObject({ text: 'b' });
});

test('reads known schemas while the registry is unavailable', async () => {
  const { registry, older, newer } = await codecs();
  const value = newer.encode({ text: 'b', tag: 't' });
  await older.decode(value);
  registry.isAway = true;
  expect(await older.decode(value)).toMatchObject({ text: 'b' });
  expect(await older.decode(older.encode({ text: 'c' }))).toMatchObject({ text: 'c' });
});

test('reads an id that was unknown before', async () => {
  const { registry, older } = await codecs();
  const value = Buffer.concat([
    Buffer.from([0, 0, 0, 0, 2]),
    parseSchema(tagged.schema).toBuffer({ text: 'x' }),
  ]);
  await expect(older.decode(value)).rejects.toBeInstanceOf(Invalid);
  registry.schemas.push(JSON.stringify({ ...JSON.parse(tagged.schema), doc: 'a third version' }));
  expect(await older.decode(value)).toMatchObject({ text: 'x' });
});

test('requests a schema once, however many records name it', async () => {
  const { registry, older } = await codecs();
  const id = await registry.register('others', other);
  const foreign = Buffer.concat([Buffer.from([0, 0, 0, 0, id]), Buffer.from([4])]);
  for (let i = 0; i < 10; i++) await expect(older.decode(foreign)).rejects.toBeInstanceOf(Invalid);
  expect(registry.lookups).toBe(1);
});

test('rejects a record of a few bytes that declares more items than it contains', async () => {
  const registry = new Registry();
  const items = [{ name: 'items', type: { type: 'map' as const, values: 'string' } }];
  const codec = await createCodec(registry, messageContract('notes', { name: 'Note', fields: items }));
  const skipped = { name: 'skipped', type: { type: 'array', items: 'null' } };
  const later = JSON.stringify({ ...JSON.parse(note.schema), fields: [skipped, ...items] });
  const laterId = await registry.register('notes', later);
  for (const id of [0, laterId]) {
    const framed = frame(id, Buffer.from([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]));
    await expect(async () => await codec.decode(framed)).rejects.toBeInstanceOf(Invalid);
  }
});

const twice = (type: object | string, name: string) => [
  { name: 'a', type },
  { name: 'b', type: name },
];
const named = (i: number, inside: readonly object[]) => ({ type: 'record', name: `R${i}`, fields: inside });
const numbers = Array.from({ length: 50 }, (_, i) => i + 1);
/**
 * Schemas of fifty nested records, in which each record has two fields of the next record's type. `upwards` starts with the
 * innermost record. `downwards` ends with null.
 */
const upwards = numbers.reduce<object>((type, i) => named(i, twice(type, `R${i - 1}`)), named(0, []));
const downwards = numbers
  .toReversed()
  .reduce<object>(
    (type, i) => named(i, [...twice(`R${i - 1}`, `R${i - 1}`), { name: 'c', type: ['null', type] }]),
    named(51, []),
  );

test.each([
  ['upwards', [{ name: 'skipped', type: upwards }]],
  [
    'downwards',
    [
      { name: 'zero', type: named(0, []) },
      { name: 'one', type: downwards },
      { name: 'last', type: 'R50' },
    ],
  ],
])('rejects a schema whose few records have millions of fields, defined %s', async (_, skipped) => {
  const { registry, older } = await codecs();
  const bomb = { ...JSON.parse(note.schema), fields: [...skipped, ...fields] };
  const id = await registry.register('notes', JSON.stringify(bomb));
  await expect(older.decode(frame(id, Buffer.from([0])))).rejects.toThrow(`schema ${id} cannot be read`);
});

test('a tail’s record waits for the registry until the tail closes', async () => {
  const { registry, older, newer } = await codecs();
  let delays = 0;
  const logger = { ...silentLogger, error: () => void delays++ };
  const decoder = openTailDecoder({ codec: older, logger, topic: 'notes' });
  const record = { offset: 7, value: newer.encode({ text: 'b', tag: 't' }) };
  registry.isAway = true;
  const waiting = decoder.decode(record, 0);
  await expect.poll(() => delays).toBeGreaterThan(1);
  registry.isAway = false;
  expect(await waiting).toMatchObject({ text: 'b' });

  const unknown = openTailDecoder({ codec: await createCodec(registry, note), logger, topic: 'notes' });
  registry.isAway = true;
  const closed = expect(unknown.decode(record, 0)).rejects.toBeInstanceOf(Unavailable);
  unknown.close();
  await closed;
});

test('limits the number of cached schemas, so that invalid records cannot fill the memory', async () => {
  let lookups = 0;
  const memory = new SchemaCache(async (id) => `${id} ${++lookups}`, new ManualClock());
  for (let id = 0; id <= MAX_CACHED_SCHEMAS; id++) await memory.get(id);
  await memory.get(MAX_CACHED_SCHEMAS);
  expect(lookups).toBe(MAX_CACHED_SCHEMAS + 1);
  await memory.get(0);
  expect(lookups).toBe(MAX_CACHED_SCHEMAS + 2);
});

test('the registry in the log rejects a schema that cannot read the log’s records', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('questlog.schemas.v1')]);
  const registry = await openLogRegistry(log);
  const id = await registry.register(note.subject, note.schema, 'BACKWARD_TRANSITIVE');
  await expect(registry.register(note.subject, other, 'BACKWARD_TRANSITIVE')).rejects.toBeInstanceOf(
    StartRefused,
  );
  const reopened = await openLogRegistry(log);
  await expect(reopened.register(note.subject, other, 'BACKWARD_TRANSITIVE')).rejects.toThrow(
    /^notes-value was written with schema 1, and this version cannot read that one/,
  );
  expect(await reopened.register(note.subject, note.schema, 'BACKWARD_TRANSITIVE')).toBe(id);
  await reopened.register(note.subject, tagged.schema, 'BACKWARD_TRANSITIVE');
});

test.each(['junk', 'null', '{"subject":"notes-value"}', '{"subject":5,"schema":"\\"int\\""}'])(
  'the registry in the log reports the offset of an invalid schema: %s',
  async (junk) => {
    const log = await aLog();
    await log.ensureTopics([topicSpec('questlog.schemas.v1')]);
    const registry = await openLogRegistry(log);
    await registry.register(note.subject, note.schema, 'BACKWARD_TRANSITIVE');
    await log.append('questlog.schemas.v1', 0, [{ key: 'k', value: Buffer.from(junk) }]);
    const opened = openLogRegistry(log);
    await expect(opened).rejects.toBeInstanceOf(StartRefused);
    await expect(opened).rejects.toThrow(
      'the record of questlog.schemas.v1/0 at offset 1 is not a valid schema',
    );
  },
);

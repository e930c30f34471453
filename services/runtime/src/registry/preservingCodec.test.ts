import { MICROS, MILLIS, messageContract, optional, record } from '@questlog/schemas/topics/contract';
import { expect, test } from 'vitest';
import { createPreservingCodec } from './preservingCodec.ts';
import { type Codec, createCodec, type SchemaRegistry } from './registry.ts';

interface Note {
  readonly text: string;
  readonly bytes: Buffer;
  readonly tag?: { readonly word: string } | null;
  readonly places: readonly { readonly x: number }[];
}

const tag = record('Tag', [{ name: 'word', type: 'string' }]);
const laterTag = record('Tag', [...tag.fields, optional('colour', 'string')]);
const note = noteOf(tag, []);
const later = noteOf(laterTag, [optional('signed', 'string'), { name: 'stars', type: 'int', default: 3 }]);
const latest = noteOf(laterTag, [
  ...[optional('signed', 'string'), { name: 'stars', type: 'int', default: 3 }, optional('seal', 'bytes')],
]);
const aNote: Note = { text: 'a', bytes: Buffer.from([1]), tag: null, places: [] };

test('keeps fields of a later version, also nested ones, through a change', async () => {
  const { own, newer } = await codecs();
  const written = {
    ...{ ...aNote, signed: 'them', stars: 5, tag: { word: 'w', colour: 'red' } },
    places: [
      { x: 1, y: 2 },
      { x: 3, y: 4 },
    ],
  };
  const known = await own.decode(newer.encode(written));
  expect(JSON.stringify(known)).toBe(
    JSON.stringify({ ...aNote, tag: { word: 'w' }, places: [{ x: 1 }, { x: 3 }] }),
  );
  const [, second] = known.places;
  const changed = { ...known, text: 'b', places: second === undefined ? [] : [second] };
  expect(await newer.decode(own.encode(changed))).toEqual({
    ...written,
    text: 'b',
    places: [{ x: 3, y: 4 }],
  });
});

test('writes the defaults of a later version’s fields into a new message, which its own version can read', async () => {
  const { own, newer } = await codecs();
  await own.decode(newer.encode({ ...aNote, signed: 'them', stars: 5 }));
  const value = own.encode(aNote);
  expect(await newer.decode(value)).toEqual({ ...aNote, signed: null, stars: 3 });
  expect(await own.decode(value)).toMatchObject(aNote);
});

test('writes with the latest of two later versions, whichever was read last', async () => {
  const { registry, own, newer } = await codecs();
  const newest = await createCodec(registry, latest);
  const sealed = await own.decode(newest.encode({ ...aNote, seal: Buffer.from([9]) }));
  const signed = await own.decode(newer.encode({ ...aNote, signed: 'them' }));
  expect(await newest.decode(own.encode(sealed))).toMatchObject({ seal: Buffer.from([9]) });
  expect(await newest.decode(own.encode(signed))).toMatchObject({ signed: 'them', seal: null });
});

test('if an unknown field does not match its schema, reads the message and keeps all other unknown fields', async () => {
  const { registry, own } = await codecs();
  const more = [optional('signed', 'string'), { name: 'big', type: 'long', default: 0 }];
  const timed = noteOf(laterTag, [{ name: 'at', type: MILLIS, default: 0 }, ...more]);
  const newer = await createCodec(registry, timed);
  const red = { word: 'w', colour: 'red' };
  const value = newer.encode({ ...aNote, at: -1, signed: 'them', tag: red, big: 7 });
  const known = await own.decode(value);
  expect(JSON.stringify(known)).toBe(JSON.stringify({ ...aNote, tag: { word: 'w' } }));
  // All bytes are equal, including the bytes of the invalid field, which this version cannot validate.
  expect(own.encode(known)).toEqual(value);
  expect(await newer.decode(own.encode(aNote))).toEqual({ ...aNote, at: 0, signed: null, big: 0 });
});

test('keeps every digit of an integer that a number cannot represent', async () => {
  const { registry, own } = await codecs();
  const micros = noteOf(laterTag, [{ name: 'at', type: MICROS, default: 0 }]);
  const value = (await createCodec(registry, micros)).encode({ ...aNote, at: 2n ** 62n + 1n });
  expect(own.encode({ ...(await own.decode(value)) })).toEqual(value);
});

test('messages of an earlier version, or without a field, do not change what is written', async () => {
  const registry = aRegistry();
  const own = await createPreservingCodec<Note>(registry, later);
  const { schemaId } = await createCodec(registry, later);
  const earlier = await createCodec<Note>(registry, note);
  const apart = await createCodec(registry, noteOf(tag, [optional('other', 'string')]));
  for (const { encode } of [earlier, apart]) {
    const known = await own.decode(encode({ ...aNote, other: 'x' } as Note));
    expect(own.encode(known).readUInt32BE(1)).toBe(schemaId);
  }
});

function noteOf(tagged: ReturnType<typeof record>, more: Parameters<typeof record>[1]) {
  const isLater = more.length > 0 && tagged === laterTag;
  const place = record('Place', [
    { name: 'x', type: 'int' },
    ...(isLater ? [{ name: 'y', type: 'int', default: 0 }] : []),
  ]);
  const fields = [
    { name: 'text', type: 'string' },
    { name: 'bytes', type: 'bytes' },
    optional('tag', tagged),
    { name: 'places', type: { type: 'array' as const, items: place } },
    ...more,
  ];
  return messageContract<Note & Record<string, unknown>>('notes', { name: 'Note', fields });
}

function aRegistry(): SchemaRegistry {
  const texts: string[] = [];
  return {
    register: async (_, schema) => (texts.includes(schema) ? texts.indexOf(schema) + 1 : texts.push(schema)),
    schemaById: async (id) => texts[id - 1],
  };
}

async function codecs(): Promise<{
  registry: SchemaRegistry;
  own: Codec<Note>;
  newer: Codec<Note & Record<string, unknown>>;
}> {
  const registry = aRegistry();
  return {
    registry,
    own: await createPreservingCodec<Note>(registry, note),
    newer: await createCodec(registry, later),
  };
}

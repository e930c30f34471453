/** Tests every document of the corpus as a body and as a payload. */
import { isUtf8 } from 'node:buffer';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import type { JsonDocument } from '@questlog/schemas/fixtures/jsonDocument';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { describe, expect, test } from 'vitest';
import { scanBody } from './scanBody.ts';

describe('a valid document', () => {
  test.each(validJson)('is accepted as a body: $name', ({ bytes }) => {
    expect(engineAccepts(bytes)).toBe(true);
    expect(scanBody(bytes, { maxElements: 500 })).toMatchObject({ ok: true });
  });

  test.each(validJson)('is kept byte for byte in a payload: $name', ({ bytes }) => {
    const body = asPayload(bytes);
    const result = scanBody(body, { maxElements: 500 });
    if (!result.ok) throw new Error(`refused at ${result.offset}: ${result.detail}`);
    const [element] = result.elements;
    expect(element).toMatchObject({ eventType: 'x', payloadKind: 'object', tooDeep: undefined });
    const payload = body.subarray(element?.payloadStart, element?.payloadEnd);
    expect(payload.equals(Buffer.concat([Buffer.from('{"v":'), bytes, Buffer.from('}')]))).toBe(true);
  });
});

describe('an invalid document', () => {
  test.each(invalidJson)('is rejected as a body: $name', ({ bytes }) => {
    expect(engineAccepts(bytes)).toBe(false);
    expect(isAccepted(bytes)).toBe(false);
  });

  test.each(invalidJson)(
    'makes a body invalid as a payload, unless tagged: $name',
    ({ bytes, topLevelOnly }) => {
      const body = asPayload(bytes);
      expect(engineAccepts(body)).toBe(topLevelOnly ?? false);
      expect(isAccepted(body)).toBe(topLevelOnly ?? false);
    },
  );
});

describe('the corpus', () => {
  const all: readonly JsonDocument[] = [...validJson, ...invalidJson];

  test('holds at least 150 documents of each kind', () => {
    expect(validJson.length).toBeGreaterThanOrEqual(150);
    expect(invalidJson.length).toBeGreaterThanOrEqual(150);
  });

  test('holds no document and no name twice', () => {
    expect(new Set(all.map(({ bytes }) => bytes.toString('latin1'))).size).toBe(all.length);
    expect(new Set(validJson.map(({ name }) => name)).size).toBe(validJson.length);
    expect(new Set(invalidJson.map(({ name }) => name)).size).toBe(invalidJson.length);
  });
});

/** True if a request with the body is accepted. Includes the caller's check of the encoding. */
function isAccepted(body: Buffer): boolean {
  return isUtf8(body) && scanBody(body, { maxElements: 500 }).ok;
}

function engineAccepts(body: Buffer): boolean {
  if (!isUtf8(body)) return false;
  try {
    JSON.parse(body.toString());
    return true;
  } catch {
    return false;
  }
}

function asPayload(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from('{"eventType":"x","payload":{"v":'), bytes, Buffer.from('}}')]);
}

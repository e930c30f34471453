/** Tests that names with a special meaning in JavaScript have no special meaning in a body. */
import { randomUUID } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import { checkedBody } from '@questlog/runtime/http/route';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { TenantInput } from '@questlog/schemas/http/admin';
import { expect, onTestFinished, test } from 'vitest';
import { listenForUploads } from './uploadHandlers.testing.ts';

test('ignores and names __proto__ as an unknown field, at every level', async () => {
  const store = {
    describe: async () => {},
    address: async () => 'http://127.0.0.1/',
  } as unknown as UploadStore;
  const principal = { project: { id: randomUUID() }, tenant: { id: 'one' } } as unknown as Principal;
  const listener = await listenForUploads({ store, principal });
  onTestFinished(() => listener.close());
  const body =
    '{"fileName":"a.txt","attachmentType":"other","mimeType":"text/plain","__proto__":{"fileName":7},"more":{"__proto__":1}}';
  const headers = { 'Content-Type': 'application/json' };
  const url = `http://127.0.0.1:${listener.port}/v1/ingest/uploads`;
  const answer = await fetch(url, { method: 'POST', headers, body });

  expect(answer.status, await answer.text()).toBe(201);
  expect(answer.headers.get('Questlog-Ignored-Fields')).toBe('"/__proto__", "/more"');
});

test.each(['{"name":"x","__proto__":{"id":7}}', '{"name":"x","__proto__":null}'])(
  'rejects it in a body without additional fields: %s',
  (body) => {
    expect(() => checkedBody(TenantInput)(JSON.parse(body))).toThrow('there is no field __proto__');
  },
);

/** Reads a query and its parameters from a multipart form: how clients send parameters that are too long for a URL. */

import type { ByteStream } from '../../../process/inflate.ts';
import { MAX_FORM_BYTES } from '../engine/limits.ts';
import { exceptions } from './httpErrors.ts';
import { type RequestHead, sortFields } from './requestParsing.ts';

/** @throws ClickHouseException when the form is too large, broken, or carries files (data for external tables) */
export async function readForm(head: RequestHead, body: ByteStream): Promise<RequestHead> {
  const form = await parse(head.contentType, await readAll(body));
  const fields: [string, string][] = [];
  for (const [name, value] of form) {
    if (typeof value !== 'string') {
      throw exceptions.notImplemented('The embedded ClickHouse does not take external tables.');
    }
    fields.push([name, value]);
  }
  const { settings, parameters } = sortFields(fields);
  const query = fields.find(([name]) => name === 'query')?.[1];
  return {
    ...head,
    urlQuery: [head.urlQuery, query].filter((part) => part !== undefined && part !== '').join('\n'),
    settings: new Map([...head.settings, ...settings]),
    parameters: new Map([...head.parameters, ...parameters]),
  };
}

async function parse(contentType: string, bytes: Buffer<ArrayBuffer>): Promise<FormData> {
  try {
    return await new Response(bytes, { headers: { 'content-type': contentType } }).formData();
  } catch (cause) {
    throw exceptions.badRequestParameter(`The form cannot be read: ${String(cause)}`);
  }
}

async function readAll(body: ByteStream): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > MAX_FORM_BYTES) throw exceptions.queryTooLarge(MAX_FORM_BYTES);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** One request to Questlog and what became of it. */
import type { GameOptions, ReportFile } from './gameOptions.ts';
import type { Unit } from './queue.ts';

/** Browsers let 64 KiB outlive their page, headers aside. */
export const KEEPALIVE_BYTES = 60_000;
const GZIP_FROM_BYTES = 1_024;
const ANSWER_WITHIN_MS = 30_000;
/** A large file on a slow line takes its time. */
const UPLOADED_WITHIN_MS = 15 * 60_000;
const MAX_RETRY_AFTER_MS = 3_600_000;
/** Node's codes for a request that never left. */
const UNSENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'];

export interface Content {
  readonly text: string;
  readonly headers?: Record<string, string>;
  /** False: nothing may come before the request, since the page goes. */
  readonly mayGzip: boolean;
  /** Asked just before it leaves. */
  isWanted(): boolean;
}

export interface Reply {
  /** 0: no answer, or half of one. */
  readonly status: number;
  readonly body?: unknown;
  readonly retryAfterMs?: number;
  readonly isUnsent?: boolean;
}

export async function post(options: GameOptions, path: string, content: Content): Promise<Reply> {
  const { url, token, fetch: send = fetch } = options;
  const { text, mayGzip, isWanted } = content;
  const headers = {
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
    ...content.headers,
  };
  try {
    const isGzipped = mayGzip && text.length >= GZIP_FROM_BYTES;
    const body = isGzipped ? await gzip(text) : new TextEncoder().encode(text);
    if (!isWanted()) return { status: 0, isUnsent: true };
    const answer = await send(`${url.replace(/\/$/, '')}/v1/ingest/${path}`, {
      method: 'POST',
      headers: isGzipped ? { ...headers, 'Content-Encoding': 'gzip' } : headers,
      body,
      keepalive: body.length <= KEEPALIVE_BYTES,
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    const retryAfterMs = retryAfterOf(answer.headers.get('Retry-After'));
    return { status: answer.status, body: parsed(await answer.text()), retryAfterMs };
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    return { status: 0, isUnsent: UNSENT.includes(fieldOf(cause, 'code') ?? '') };
  }
}

/** @throws where the file was refused, or is not wanted any more, or the network broke. */
export async function upload(
  options: GameOptions,
  upload: { data: Blob; file: Pick<ReportFile, 'attachmentType' | 'fileName'>; isWanted(): boolean },
): Promise<ReportFile> {
  const { data, isWanted } = upload;
  const file = { ...upload.file, mimeType: data.type, sizeBytes: data.size };
  const { status, body } = await post(options, 'uploads', {
    text: JSON.stringify(file),
    mayGzip: false,
    isWanted,
  });
  if (!isWanted()) throw new Error('offline, stopped, or without consent');
  const [uploadId, address] = [fieldOf(body, 'uploadId'), fieldOf(body, 'uploadUrl')];
  if (uploadId === undefined || address === undefined) {
    throw new Error(`the file was refused: ${fieldOf(body, 'message') ?? status}`);
  }
  const { fetch: send = fetch } = options;
  const put = await send(address, {
    method: 'PUT',
    headers: { 'Content-Type': data.type },
    body: data,
    signal: AbortSignal.timeout(UPLOADED_WITHIN_MS),
  });
  if (!put.ok) throw new Error(`the file was refused: ${put.status}`);
  return { uploadId, ...file };
}

/** Whether the request, as it is, will not do. */
export function isRefusal({ status }: Reply): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/**
 * Whether a body is Questlog's last answer to it: not of somebody on the way, and not of a batch of which some came too fast.
 * With its key that stores what is missing when it comes again.
 */
export function isAnswer([head, ...others]: Unit, body: unknown): boolean {
  if (head.kind !== 'event') return fieldOf(body, 'id') !== undefined;
  const isWhole = Array.isArray(body) && body.length === 1 + others.length;
  return isWhole && !body.some((element) => fieldOf(element, 'code') === 'rate_limited');
}

export function fieldOf(value: unknown, name: string): string | undefined {
  const field: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  return typeof field === 'string' ? field : undefined;
}

/** Seconds or a date. */
function retryAfterOf(header: string | null): number {
  const ms = Number(header) * 1_000 || Date.parse(header ?? '') - Date.now();
  return Math.min(Math.max(ms || 0, 0), MAX_RETRY_AFTER_MS);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const zipped = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
  return new Uint8Array(await new Response(zipped).arrayBuffer());
}

/** Version 4, or with a time version 7; `crypto.randomUUID` is not there on pages without TLS. */
export function uuid(ms?: number): string {
  const random = [...crypto.getRandomValues(new Uint8Array(16))];
  const hex = random.map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const time = ms?.toString(16).padStart(12, '0') ?? hex.slice(0, 12);
  const variant = '89ab'[(random[8] ?? 0) & 3];
  const start = `${time.slice(0, 8)}-${time.slice(8)}-${ms === undefined ? 4 : 7}${hex.slice(13, 16)}`;
  return `${start}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}

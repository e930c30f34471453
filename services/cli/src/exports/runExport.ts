/**
 * Exports the rows of a project. The plan of an export fixes its chunks, so a repeated command continues with exactly the same
 * files. The manifest is written after the last file. The next export starts at the offsets of the manifest.
 */
import {
  EXPORT_HEADERS,
  type ExportChunk,
  type ExportChunkInput,
  type ExportOffset,
  type ExportPlan,
  type ExportScope,
} from '@questlog/schemas/http/export';
import type { AdminEndpoint } from '../connection.ts';
import { type ExportFolder, type FileFacts, MeasuredContent } from './exportFolder.ts';

const MANIFEST = 'manifest.json';
const PLAN = 'plan.json';

export interface ExportRequest extends ExportScope {
  readonly format: ExportChunkInput['format'];
}

export interface ExportOptions {
  readonly admin: AdminEndpoint;
  readonly folder: ExportFolder;
  readonly request: ExportRequest;
  /** True if the files of the previous exports are compared with ClickHouse first. */
  readonly isRefresh: boolean;
  readonly signal: AbortSignal;
  onProgress(rows: number, allRows: number): void;
}

interface ExportedFile extends ExportChunk, FileFacts {
  readonly name: string;
}

interface Manifest extends ExportRequest {
  readonly offsets: readonly ExportOffset[];
  readonly files: readonly ExportedFile[];
}

/**
 * @returns the number of new and rewritten files, their rows and bytes, and the number of rows whose partition has no projected
 * offset yet
 */
export async function runExport(
  options: ExportOptions,
): Promise<Record<'files' | 'rows' | 'bytes' | 'unknownRows', number>> {
  const { folder, request } = options;
  const manifest = await storedJson<Manifest>(options, MANIFEST);
  const files = new Map((manifest?.files ?? []).map((file) => [file.name, file]));
  const written: ExportedFile[] = [];
  const add = (file: ExportedFile): void => {
    files.set(file.name, file);
    written.push(file);
  };
  if (options.isRefresh) for (const file of await refreshed(options, [...files.values()])) add(file);
  const { offsets, chunks, unknownRows } = await planOf(options, manifest);
  const allRows = sumOf(chunks, ({ rows }) => rows);
  let exportedRows = 0;
  for (const { rows, ...chunk } of chunks) {
    const name = fileName(chunk, request.format);
    const facts = (await folder.find(name)) ?? (await store(options, chunk, name, null));
    if (facts !== undefined) add({ name, ...chunk, ...facts });
    exportedRows += rows;
    options.onProgress(exportedRows, allRows);
  }
  const complete: Manifest = { ...request, offsets, files: [...files.values()] };
  await folder.write(MANIFEST, `${JSON.stringify(complete, null, 1)}\n`);
  await folder.finish(PLAN);
  return {
    unknownRows,
    files: written.length,
    rows: sumOf(written, ({ rows }) => rows),
    bytes: sumOf(written, ({ bytes }) => bytes),
  };
}

function sumOf<T>(items: readonly T[], numberOf: (item: T) => number): number {
  return items.reduce((sum, item) => sum + numberOf(item), 0);
}

/** Reads a file that describes an export. @throws Error if the file describes a different export */
async function storedJson<T extends ExportRequest>(
  { folder, request }: ExportOptions,
  name: string,
): Promise<T | undefined> {
  const text = await folder.read(name);
  if (text === undefined) return undefined;
  const stored: T = JSON.parse(text);
  for (const field of ['format', 'from', 'to'] as const) {
    if (stored[field] !== request[field])
      throw new Error(
        `${folder.path} has an export with ${field} ${stored[field] ?? 'omitted'}; use another folder, or the same options`,
      );
  }
  return stored;
}

/** Returns the plan of the unfinished export, or a new plan. */
async function planOf(options: ExportOptions, manifest: Manifest | undefined): Promise<ExportPlan> {
  const { admin, folder, request, signal } = options;
  const unfinished = await storedJson<ExportRequest & ExportPlan>(options, PLAN);
  if (unfinished !== undefined) return unfinished;
  if (manifest === undefined && !(await folder.isEmpty()))
    throw new Error(`${folder.path} has files but neither ${MANIFEST} nor ${PLAN}; use an empty folder`);
  const { format: _, ...scope } = request;
  const after = manifest === undefined ? [] : [...manifest.offsets];
  const plan = await admin.json('planExport', { body: { ...scope, after }, signal });
  if (haveMoved(after, plan.offsets))
    throw new Error(`the log has lost records that ${folder.path} contains; export into another folder`);
  await folder.write(PLAN, JSON.stringify({ ...request, ...plan }));
  return plan;
}

/**
 * True if a truncation or a restore of the log has changed records below the offsets of the previous export. New records then have
 * the offsets of exported records.
 */
function haveMoved(after: readonly ExportOffset[], current: readonly ExportOffset[]): boolean {
  const isNew = ({ logId }: ExportOffset) => after.every((before) => before.logId !== logId);
  return after.some(({ logId, partition, nextOffset }) =>
    current.some((now) => {
      if (now.partition !== partition) return false;
      if (now.logId === logId) return now.nextOffset < nextOffset;
      return isNew(now) && now.truncatedLogId === logId && (now.truncatedFrom ?? 0) < nextOffset;
    }),
  );
}

async function refreshed(options: ExportOptions, files: readonly ExportedFile[]): Promise<ExportedFile[]> {
  const rewritten: ExportedFile[] = [];
  for (const file of files) {
    const { name, day, logId, partition, firstOffset, lastOffset, state } = file;
    const chunk = { day, logId, partition, firstOffset, lastOffset };
    const facts = await store(options, chunk, name, state);
    if (facts !== undefined) rewritten.push({ name, ...chunk, ...facts });
  }
  return rewritten;
}

/** Writes the file of a chunk. Returns undefined without a new file if the chunk still has the state `exceptState`. */
async function store(
  { admin, folder, request, signal }: ExportOptions,
  chunk: ExportChunk,
  name: string,
  exceptState: string | null,
): Promise<FileFacts | undefined> {
  const { projectId, kind, format } = request;
  const body = { ...chunk, projectId, kind, format, exceptState };
  const { status, headers, body: content } = await admin.retried('readExportChunk', { body, signal });
  if (status === 204 || content === null) return undefined;
  const rows = Number(headers.get(EXPORT_HEADERS.rows));
  const state = headers.get(EXPORT_HEADERS.state) ?? '';
  return await folder.store(name, new MeasuredContent(content, signal), { rows, state });
}

function fileName({ day, logId, partition, firstOffset, lastOffset }: ExportChunk, format: string): string {
  return `${day}/${logId}-${partition}-${firstOffset}-${lastOffset}.${format}`;
}

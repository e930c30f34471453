/**
 * Exports the rows of a project. The plan of an export fixes its chunks, so a repeated command continues with exactly the same
 * files. Before Questlog returns the rows of a file, it checks that the rows of the plan still have the same offsets. The
 * manifest is written after the last file. The next export starts at the offsets of the manifest.
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

interface StoredPlan extends ExportRequest, ExportPlan {
  /**
   * True if the command compares the files of the manifest with ClickHouse. A repeated command that continues an export always
   * compares them.
   */
  readonly isRefresh: boolean;
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
  const { offsets, chunks, unknownRows, isRefresh } = await planOf(options, manifest);
  const files = new Map((manifest?.files ?? []).map((file) => [file.name, file]));
  const written: ExportedFile[] = [];
  const allChunks = [...(isRefresh ? files.values() : []), ...chunks];
  const allRows = sumOf(allChunks, ({ rows }) => rows);
  let exportedRows = 0;
  for (const { rows, day, logId, partition, firstOffset, lastOffset } of allChunks) {
    const chunk = { day, logId, partition, firstOffset, lastOffset };
    const name = fileName(chunk, request.format);
    const before = files.get(name);
    const stored = (await folder.find(name)) ?? before;
    const facts = (await store(options, chunk, name, offsets, stored?.state ?? null)) ?? stored;
    if (facts !== undefined && facts.sha256 !== before?.sha256) {
      const file = { name, ...chunk, ...facts };
      files.set(name, file);
      written.push(file);
    }
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
async function planOf(options: ExportOptions, manifest: Manifest | undefined): Promise<StoredPlan> {
  const { admin, folder, request, signal } = options;
  const newPlan = async (): Promise<StoredPlan> => {
    if (manifest === undefined && !(await folder.isEmpty()))
      throw new Error(`${folder.path} has files but neither ${MANIFEST} nor ${PLAN}; use an empty folder`);
    const { format: _, ...scope } = request;
    const body = { ...scope, after: [...(manifest?.offsets ?? [])] };
    return { ...request, isRefresh: false, ...(await admin.json('planExport', { body, signal })) };
  };
  const plan = (await storedJson<StoredPlan>(options, PLAN)) ?? (await newPlan());
  const stored = { ...plan, isRefresh: plan.isRefresh || options.isRefresh };
  await folder.write(PLAN, JSON.stringify(stored));
  return stored;
}

/** Writes the file of a chunk. If the chunk still has the state `exceptState`, writes no file and returns undefined. */
async function store(
  { admin, folder, request, signal }: ExportOptions,
  chunk: ExportChunk,
  name: string,
  allOffsets: readonly ExportOffset[],
  exceptState: string | null,
): Promise<FileFacts | undefined> {
  const { projectId, kind, format } = request;
  const offsets = allOffsets.filter(({ partition }) => partition === chunk.partition);
  const body = { ...chunk, projectId, kind, format, offsets, exceptState };
  const { status, headers, body: content } = await admin.retried('readExportChunk', { body, signal });
  if (status === 204 || content === null) return undefined;
  const rows = Number(headers.get(EXPORT_HEADERS.rows));
  const state = headers.get(EXPORT_HEADERS.state) ?? '';
  return await folder.store(name, new MeasuredContent(content, signal), { rows, state });
}

function fileName({ day, logId, partition, firstOffset, lastOffset }: ExportChunk, format: string): string {
  return `${day}/${logId}-${partition}-${firstOffset}-${lastOffset}.${format}`;
}

/**
 * Exports the rows of a project. The plan of an export fixes its chunks, so a repeated export continues with exactly the same
 * files. Before operations returns the rows of a file, it checks that the rows of the plan still have the same offsets. The
 * manifest is written after the last file. The next export starts at the offsets of the manifest.
 */
import { randomUUID } from 'node:crypto';
import type {
  ExportChunk,
  ExportChunkInput,
  ExportOffset,
  ExportPlan,
  ExportScope,
} from '@questlog/schemas/http/export';
import { type ExportFolder, type FileFacts, MeasuredContent } from './exportFolder.ts';

const MANIFEST = 'manifest.json';
const PLAN = 'plan.json';

export interface ExportRequest extends ExportScope {
  readonly format: ExportChunkInput['format'];
}

/** Rows of ClickHouse that an export reads. */
export interface ExportSource {
  plan(request: ExportRequest, after: readonly ExportOffset[], signal: AbortSignal): Promise<ExportPlan>;
  /** Returns the rows of a chunk. Undefined if the chunk still has the state `exceptState`. */
  read(chunk: ExportChunkInput, signal: AbortSignal): Promise<ExportedRows | undefined>;
}

export interface ExportedRows extends Pick<FileFacts, 'rows' | 'state'> {
  readonly content: AsyncIterable<Uint8Array>;
}

export interface ExportOptions {
  readonly source: ExportSource;
  readonly folder: ExportFolder;
  readonly request: ExportRequest;
  /** True if the files of the previous exports are compared with ClickHouse first. */
  readonly isRefresh: boolean;
  readonly signal: AbortSignal;
  onProgress(rows: number, allRows: number): void;
  /** Called after the manifest is complete. If this function fails, the next run continues the same plan, and calls it again. */
  onComplete?(result: ExportResult): Promise<void>;
}

export interface ExportedFile extends ExportChunk, FileFacts {
  readonly name: string;
  /**
   * Number of the file of this chunk. Each rewritten file has a new number, so that no two files ever have the same name.
   * Undefined if Questlog wrote the file before files had numbers. Such a file is the first file of its chunk.
   */
  readonly generation?: number;
  /** Id of the plan that wrote the file. Undefined if Questlog wrote the file before plans had ids. */
  readonly planId?: string;
}

interface Manifest extends ExportRequest {
  readonly offsets: readonly ExportOffset[];
  readonly files: readonly ExportedFile[];
  /** Names of the replaced files that the export has not removed yet. */
  readonly replaced?: readonly string[];
}

interface StoredPlan extends ExportRequest, ExportPlan {
  /** Undefined if Questlog wrote the plan before plans had ids. */
  readonly id?: string;
  /**
   * True if the export compares the files of the manifest with ClickHouse. A repeated export that continues a plan always
   * compares them.
   */
  readonly isRefresh: boolean;
}

export interface ExportResult {
  readonly planId: string;
  /** New and rewritten files. */
  readonly written: readonly ExportedFile[];
  /** All files of the manifest. */
  readonly files: readonly ExportedFile[];
  /** Number of rows of earlier logs whose partitions have no projected offset. */
  readonly unknownRows: number;
}

export async function runExport(options: ExportOptions): Promise<ExportResult> {
  const { folder, request } = options;
  const manifest = await storedJson<Manifest>(options, MANIFEST);
  const plan = await planOf(options, manifest);
  const { offsets } = plan;
  const files = new Map((manifest?.files ?? []).map((file) => [fileName(file, 0, request.format), file]));
  const replaced = new Set(manifest?.replaced);
  const allChunks = [...(plan.isRefresh ? files.values() : []), ...plan.chunks];
  const allRows = sumOf(allChunks, ({ rows }) => rows);
  let exportedRows = 0;
  for (const { rows, day, logId, partition, firstOffset, lastOffset } of allChunks) {
    const chunk = { day, logId, partition, firstOffset, lastOffset };
    const key = fileName(chunk, 0, request.format);
    const before = files.get(key);
    const generation = before === undefined ? 1 : (before.generation ?? 1) + 1;
    const name = fileName(chunk, generation, request.format);
    const unfinished = await folder.find(name);
    const exceptState = (unfinished ?? before)?.state ?? null;
    const facts = (await store(options, chunk, name, offsets, exceptState)) ?? unfinished;
    if (facts !== undefined) {
      files.set(key, { name, ...chunk, generation, planId: plan.id, ...facts });
      if (before !== undefined) replaced.add(before.name);
    }
    exportedRows += rows;
    options.onProgress(exportedRows, allRows);
  }
  const complete: Manifest = { ...request, offsets, files: [...files.values()] };
  // Removes replaced files after the new manifest, so that a program that reads the manifest finds every file.
  if (replaced.size > 0) await writeManifest(options, { ...complete, replaced: [...replaced] });
  for (const name of replaced) await folder.remove(name);
  await writeManifest(options, complete);
  const written = complete.files.filter(({ planId }) => planId === plan.id);
  const result = { planId: plan.id, written, files: complete.files, unknownRows: plan.unknownRows };
  await options.onComplete?.(result);
  await folder.finish(PLAN);
  return result;
}

async function writeManifest({ folder }: ExportOptions, manifest: Manifest): Promise<void> {
  await folder.write(MANIFEST, `${JSON.stringify(manifest, null, 1)}\n`);
}

export function sumOf<T>(items: readonly T[], numberOf: (item: T) => number): number {
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
async function planOf(options: ExportOptions, manifest: Manifest | undefined): Promise<Required<StoredPlan>> {
  const { source, folder, request, signal } = options;
  const newPlan = async (): Promise<StoredPlan> => {
    if (manifest === undefined && !(await folder.isEmpty()))
      throw new Error(`${folder.path} has files but neither ${MANIFEST} nor ${PLAN}; use an empty folder`);
    const plan = await source.plan(request, manifest?.offsets ?? [], signal);
    return { ...request, isRefresh: false, ...plan };
  };
  const plan = (await storedJson<StoredPlan>(options, PLAN)) ?? (await newPlan());
  const stored = { id: randomUUID(), ...plan, isRefresh: plan.isRefresh || options.isRefresh };
  await folder.write(PLAN, JSON.stringify(stored));
  return stored;
}

/** Writes the file of a chunk. If the chunk still has the state `exceptState`, writes no file and returns undefined. */
async function store(
  { source, folder, request, signal }: ExportOptions,
  chunk: ExportChunk,
  name: string,
  allOffsets: readonly ExportOffset[],
  exceptState: string | null,
): Promise<FileFacts | undefined> {
  const { projectId, kind, format } = request;
  const offsets = allOffsets.filter(({ partition }) => partition === chunk.partition);
  const rows = await source.read({ ...chunk, projectId, kind, format, offsets, exceptState }, signal);
  if (rows === undefined) return undefined;
  return await folder.store(name, new MeasuredContent(rows.content, signal), rows);
}

function fileName(
  { day, logId, partition, firstOffset, lastOffset }: ExportChunk,
  generation: number,
  format: string,
): string {
  return `${day}/${logId}-${partition}-${firstOffset}-${lastOffset}-${generation}.${format}`;
}

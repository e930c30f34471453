/** Handles the requests of `questlog export`. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Handlers } from '@questlog/runtime/http/routes';
import { EXPORT_HEADERS } from '@questlog/schemas/http/export';
import type { OPERATORS } from '@questlog/schemas/http/operations/operators';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { hasUnhiddenRows } from './erasedExports.ts';
import { planExport } from './planExport.ts';
import { readChunk } from './readChunk.ts';

export function exportHandlers(
  store: Store,
  directory: { readonly current: Pick<Directory, 'projects' | 'erasures'> },
): Handlers<Pick<typeof OPERATORS, 'planExport' | 'readExportChunk'>> {
  const projectOf = (id: string): Project => {
    const project = directory.current.projects.get(id.toLowerCase());
    if (project === undefined) throw new Rejected('not_found', `there is no project ${id}`);
    return project;
  };
  return {
    planExport: (_, { body }) => planExport(store, projectOf(body.projectId), body, body.after),
    readExportChunk: async (ctx, { body }) => {
      const closed = new AbortController();
      ctx.res.once('close', () => closed.abort());
      const project = projectOf(body.projectId);
      const isErasing = () => hasUnhiddenRows(directory.current, project.id);
      const chunk = await readChunk(store, project, body, closed.signal, isErasing);
      ctx.status = chunk === undefined ? 204 : 200;
      if (chunk === undefined) return undefined;
      ctx.set({ [EXPORT_HEADERS.rows]: String(chunk.rows), [EXPORT_HEADERS.state]: chunk.state });
      return chunk.content;
    },
  };
}

/** Reads the rows of an export through the listener for operators. */
import type { ExportSource } from '@questlog/runtime/exports/runExport';
import { EXPORT_HEADERS } from '@questlog/schemas/http/export';
import type { AdminEndpoint } from '../connection.ts';

export function adminSource(admin: AdminEndpoint): ExportSource {
  return {
    plan: ({ format, ...request }, after, signal) => {
      // Omits the default format, because earlier versions of operations reject a request with the field `format`.
      const body = { ...request, ...(format !== 'parquet' && { format }), after: [...after] };
      return admin.json('planExport', { body, signal });
    },
    read: async (chunk, signal) => {
      const { status, headers, body } = await admin.retried('readExportChunk', { body: chunk, signal });
      if (status === 204 || body === null) return undefined;
      const rows = Number(headers.get(EXPORT_HEADERS.rows));
      return { rows, state: headers.get(EXPORT_HEADERS.state) ?? '', content: body };
    },
  };
}

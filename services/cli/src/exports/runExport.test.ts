/** Tests how an export ends after a broken response, and with other options. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ExportRequest, runExport } from '@questlog/runtime/exports/runExport';
import type { ExportPlan } from '@questlog/schemas/http/export';
import { expect, onTestFinished, test } from 'vitest';
import { adminEndpoint } from '../connection.ts';
import { adminSource } from './adminSource.ts';
import { exportCommand } from './exportCommand.ts';
import { openLocalFolder } from './localFolder.ts';

const logId = randomUUID();
const REQUEST: ExportRequest = {
  ...{ projectId: randomUUID(), kind: 'events', format: 'csv', from: null, to: null },
};
const OFFSET = {
  logId,
  partition: 0,
  tableUuid: randomUUID(),
  nextOffset: 10,
  truncatedLogId: null,
  truncatedFrom: null,
};
const PLAN: ExportPlan = {
  ...{ offsets: [OFFSET], unknownRows: 0 },
  chunks: [{ day: '2026-11-01', logId, partition: 0, firstOffset: 0, lastOffset: 9, rows: 1 }],
};
const FILE = `2026-11-01/${logId}-0-0-9-1.csv`;

test('an incomplete response leaves neither a file nor a manifest', async () => {
  const { run, contents } = await anExport((response) => {
    response.write('half');
    setImmediate(() => response.destroy());
  });
  await expect(run()).rejects.toThrow(`${FILE} was not written`);
  expect(contents()).toEqual(['2026-11-01', 'plan.json']);
});

test('a folder accepts only exports with the same options, and only its own files', async () => {
  const { run, folder } = await anExport();
  expect((await run()).written).toMatchObject([{ name: FILE, rows: 1, bytes: 3 }]);
  await expect(run({ ...REQUEST, format: 'ndjson' })).rejects.toThrow('has an export with format csv');
  await expect(run({ ...REQUEST, from: '2026-11-01' })).rejects.toThrow('has an export with from omitted');
  rmSync(join(folder, 'manifest.json'));
  await expect(run()).rejects.toThrow('has files but neither manifest.json nor plan.json');
});

test('a project is a UUID, so that its folder is inside the output folder', async () => {
  const command = exportCommand(() => Promise.reject(new Error('the command has sent a request')), {});
  command.exitOverride().configureOutput({ writeErr: () => {} });
  const args = ['events', '--project', '../../..', '--output', tmpdir()];
  await expect(command.parseAsync(args, { from: 'user' })).rejects.toThrow('it must be a UUID');
});

async function anExport(sendChunk = (response: ServerResponse) => void response.end('1\n2')) {
  const server = createServer((request, response) => {
    request.resume();
    if (request.url?.endsWith('/plan')) response.end(JSON.stringify(PLAN));
    else {
      response.writeHead(200, { 'Questlog-Export-Rows': '1', 'Questlog-Export-State': '1.0' });
      sendChunk(response);
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const folder = mkdtempSync(join(tmpdir(), 'questlog-export-'));
  onTestFinished(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : '';
  const admin = adminEndpoint(`http://127.0.0.1:${port}`, 'token');
  const { signal } = new AbortController();
  const run = async (request = REQUEST) => {
    const opened = await openLocalFolder(folder);
    try {
      return await runExport({
        ...{ source: adminSource(admin), folder: opened, request, isRefresh: false, signal },
        onProgress: () => {},
      });
    } finally {
      await opened.close();
    }
  };
  return { run, folder, contents: () => readdirSync(folder).sort() };
}

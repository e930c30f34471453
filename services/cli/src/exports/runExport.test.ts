/** Tests how an export ends after a broken response, with other options, and after the log has lost records. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExportPlan } from '@questlog/schemas/http/export';
import { expect, onTestFinished, test } from 'vitest';
import { adminEndpoint } from '../connection.ts';
import { openLocalFolder } from './localFolder.ts';
import { type ExportRequest, runExport } from './runExport.ts';

const logId = randomUUID();
const REQUEST: ExportRequest = {
  ...{ projectId: randomUUID(), kind: 'events', format: 'csv', from: null, to: null },
};
const OFFSET = { logId, partition: 0, nextOffset: 10, truncatedLogId: null, truncatedFrom: null };
const PLAN: ExportPlan = {
  ...{ offsets: [OFFSET], unknownRows: 0 },
  chunks: [{ day: '2026-11-01', logId, partition: 0, firstOffset: 0, lastOffset: 9, rows: 1 }],
};
const FILE = `2026-11-01/${logId}-0-0-9.csv`;

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
  expect(await run()).toEqual({ files: 1, rows: 1, bytes: 3, unknownRows: 0 });
  await expect(run({ ...REQUEST, format: 'ndjson' })).rejects.toThrow('has an export with format csv');
  await expect(run({ ...REQUEST, from: '2026-11-01' })).rejects.toThrow('has an export with from omitted');
  rmSync(join(folder, 'manifest.json'));
  await expect(run()).rejects.toThrow('has files but neither manifest.json nor plan.json');
});

test.each([
  ['has ended at a lower offset', [{ ...OFFSET, nextOffset: 9 }]],
  ['was truncated', [OFFSET, { ...OFFSET, logId: randomUUID(), truncatedLogId: logId, truncatedFrom: 9 }]],
])('an export does not continue if the log %s', async (_, offsets) => {
  const { run, plan } = await anExport();
  await run();
  plan.offsets = offsets;
  await expect(run()).rejects.toThrow('the log has lost records');
});

test('an export continues if the previous export knew the truncation of the log', async () => {
  const { run, plan } = await anExport();
  const orphan = { ...OFFSET, logId: randomUUID(), truncatedLogId: logId, truncatedFrom: 5 };
  plan.offsets = [OFFSET, orphan];
  await run();
  plan.chunks = [];
  expect(await run()).toMatchObject({ files: 0, rows: 0, bytes: 0 });
});

async function anExport(sendChunk = (response: ServerResponse) => void response.end('1\n2')) {
  const plan = { ...PLAN };
  const server = createServer((request, response) => {
    request.resume();
    if (request.url?.endsWith('/plan')) response.end(JSON.stringify(plan));
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
  const run = async (request = REQUEST) =>
    await runExport({
      ...{ admin, folder: await openLocalFolder(folder), request, isRefresh: false, signal },
      onProgress: () => {},
    });
  return { run, plan, folder, contents: () => readdirSync(folder).sort() };
}

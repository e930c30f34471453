/** Tests how an export ends after a broken response, after a failure to remove a file, and with other options. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type ExportRequest, type ExportSource, runExport } from '@questlog/runtime/exports/runExport';
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

test('a request for a plan omits the default format, because an earlier version of operations rejects the field', async () => {
  const plans: object[] = [];
  const { run } = await anExport(undefined, (body) => plans.push(JSON.parse(body)));
  await run({ ...REQUEST, format: 'parquet' });
  expect(plans).toEqual([expect.not.objectContaining({ format: expect.anything() })]);
});

test('a project is a UUID, so that its folder is inside the output folder', async () => {
  const command = exportCommand(() => Promise.reject(new Error('the command has sent a request')), {});
  command.exitOverride().configureOutput({ writeErr: () => {} });
  const args = ['events', '--project', '../../..', '--output', tmpdir()];
  await expect(command.parseAsync(args, { from: 'user' })).rejects.toThrow('it must be a UUID');
});

test('a refresh after a failed removal also removes the files that the failed refresh had replaced', async () => {
  const { run, files, chunk } = aRefreshedFolder();
  await run();
  chunk.state = '2';
  await expect(run('1.csv')).rejects.toThrow('the file stays');
  chunk.state = '3';
  expect((await run()).written).toMatchObject([{ name: FILE.replace('1.csv', '3.csv'), generation: 3 }]);
  expect(files()).toEqual([FILE.replace('1.csv', '3.csv'), 'manifest.json']);
});

test('a refresh replaces the files of an earlier version of Questlog, whose names and plans have no numbers', async () => {
  const { run, files, folder } = aRefreshedFolder();
  const name = FILE.replace('-1.csv', '.csv');
  const [chunk] = PLAN.chunks;
  const file = { ...chunk, name, bytes: 1, sha256: 'of an earlier file', state: '0' };
  mkdirSync(join(folder, '2026-11-01'));
  writeFileSync(join(folder, name), 'x');
  writeFileSync(
    join(folder, 'manifest.json'),
    JSON.stringify({ ...REQUEST, offsets: [OFFSET], files: [file] }),
  );
  writeFileSync(
    join(folder, 'plan.json'),
    JSON.stringify({ ...REQUEST, ...PLAN, chunks: [], isRefresh: true }),
  );
  const { planId, written } = await run();
  expect(planId).toHaveLength(randomUUID().length);
  // A file whose number is larger than 1 has replaced another file.
  expect(written).toMatchObject([{ name: FILE.replace('1.csv', '2.csv'), generation: 2, planId }]);
  expect(files()).toEqual([FILE.replace('1.csv', '2.csv'), 'manifest.json']);
});

/** Returns a folder whose export has one chunk. A run fails if it removes a file whose name ends with `stays`. */
function aRefreshedFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-export-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const chunk = { state: '1' };
  const source: ExportSource = {
    plan: async (_, after) => (after.length === 0 ? PLAN : { ...PLAN, chunks: [] }),
    read: async ({ exceptState }) =>
      exceptState === chunk.state
        ? undefined
        : { rows: 1, state: chunk.state, content: Readable.from([Buffer.from(chunk.state)]) },
  };
  const run = async (stays?: string) => {
    const opened = await openLocalFolder(folder);
    const remove = async (name: string) => {
      if (stays !== undefined && name.endsWith(stays)) throw new Error('the file stays');
      await opened.remove(name);
    };
    try {
      return await runExport({
        ...{ source, folder: { ...opened, remove }, request: REQUEST, isRefresh: true },
        ...{ signal: new AbortController().signal, onProgress: () => {} },
      });
    } finally {
      await opened.close();
    }
  };
  const files = () =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name !== '2026-11-01')
      .sort();
  return { run, files, folder, chunk };
}

async function anExport(
  sendChunk = (response: ServerResponse) => void response.end('1\n2'),
  onPlan: (body: string) => void = () => {},
) {
  const server = createServer(async (request, response) => {
    const body = await text(request);
    if (request.url?.endsWith('/plan')) {
      onPlan(body);
      response.end(JSON.stringify(PLAN));
    } else {
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

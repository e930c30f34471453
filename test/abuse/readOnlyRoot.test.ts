/**
 * Runs the product like its container: a read-only disk except for the data folder and a temporary folder, a user other
 * than root, and no capabilities. A write to another folder fails.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { confined, whyNotConfined } from '../e2e/confined.ts';
import { bugsIn, collectOutput, end, ownEnvironment, reach, ready } from '../e2e/product.ts';
import { recordFigure } from './figures.ts';

const ENTRY = fileURLToPath(new URL('../../services/cli/src/main.ts', import.meta.url));
const HEALTHCHECK = fileURLToPath(new URL('../../deploy/docker/healthcheck.ts', import.meta.url));
const READY_WITHIN_MS = 90_000;
const UID = 1000;

const folder = mkdtempSync(join(tmpdir(), 'questlog-read-only-'));
const [dataDir, tmp] = [join(folder, 'data'), join(folder, 'tmp')];
for (const path of [dataDir, tmp]) mkdirSync(path);
const unconfined = whyNotConfined(folder);
if (unconfined !== undefined) console.warn(`skipped: nothing can be confined here: ${unconfined}`);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.skipIf(unconfined !== undefined)(
  'the product writes to its data folder and to the temporary one only, and needs no rights',
  async () => {
    for (const path of [folder, dataDir, tmp]) chownSync(path, UID, UID);
    const env = {
      ...ownEnvironment(),
      HOME: '/nonexistent',
      TMPDIR: tmp,
      QUESTLOG_DATA_DIR: dataDir,
      QUESTLOG_PORT: '0',
      QUESTLOG_ADMIN_PORT: '0',
    };
    const child = spawn('unshare', confined(folder, UID, [process.execPath, ENTRY, 'standalone']), { env });
    onTestFinished(() => void child.kill('SIGKILL'));
    const output = collectOutput(child);
    await ready(child, output, READY_WITHIN_MS);
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    expect(status).toMatch(new RegExp(`^Uid:\\s+${UID}\\s`, 'm'));
    expect(status).toMatch(/^CapBnd:\s+0+$/m);
    const product = reach(JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8')));
    const { sessionId, adminUrl } = product.credentials;

    const attachment = { attachmentType: 'other', fileName: 'a.txt', mimeType: 'text/plain', sizeBytes: 6 };
    const upload = (await product.request('POST', '/v1/ingest/uploads', { body: attachment })).json();
    expect(
      (await fetch(upload.uploadUrl, { method: 'PUT', headers: upload.requiredHeaders, body: 'a file' }))
        .status,
    ).toBeLessThan(300);
    const report = await product.request('POST', '/v1/ingest/reports', {
      body: { sessionId, report: { title: 'stuck' } },
    });
    const [event] = (
      await product.request('POST', '/v1/ingest/events', { body: { sessionId, eventType: 'a' } })
    ).json();
    expect(report.status).toBe(201);
    await eventually(
      () => product.sql<{ id: string }>(`SELECT id FROM events ORDER BY payload LIMIT 10`),
      (rows) => rows.some(({ id }) => id === event.id),
    );
    const { port } = new URL(adminUrl);
    const health = spawnSync(process.execPath, [HEALTHCHECK], {
      env: { ...env, QUESTLOG_ADMIN_PORT: port },
      encoding: 'utf8',
    });
    expect({ status: health.status, said: health.stdout }).toEqual({
      status: 0,
      said: expect.stringContaining('ok'),
    });

    expect(await end(child, 'SIGTERM')).toBe(0);
    expect(bugsIn(output.stderr)).toEqual([]);
    expect(output.stderr).not.toMatch(/EROFS|EACCES|EPERM|[Rr]ead-only file system/);
    recordFigure('A container without root and capabilities, and with only two writable folders', {
      tried: 'start, event, report with a file, query, health check, stop',
      held: 'everything works, and no write fails',
    });
  },
);

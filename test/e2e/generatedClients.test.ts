/** Tests that a public generator makes working TypeScript clients of both OpenAPI documents. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '@questlog/runtime/process/errors';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { beforeAll, expect, test } from 'vitest';
import { installPackages } from '../npmPackages.ts';
import { ROOT } from '../tidy/projectFiles.ts';
import { sharedProduct } from './sharedProduct.ts';

/** The generator needs the API of TypeScript 5, which later versions lack. */
const PACKAGES = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', 'typescript@5.9.3'];

const CLIENT = `
import createClient from 'openapi-fetch';
import type { paths } from './api.d.ts';

const [baseUrl, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: \`Bearer \${token}\` } });
`;

/** Wrong names must be type errors, because types that accept any name would not help a client. */
const GAME = `${CLIENT}
const build = { version: '1.4.2', platform: 'Web' };
const session = await client.POST('/v1/ingest/sessions', { body: { build } });
if (session.error !== undefined) throw new Error(session.error.detail);
const sessionId: string = session.data.id;
const event = { eventType: 'level_up', occurredAt: new Date().toISOString(), payload: { level: 3 } };
const { data } = await client.POST('/v1/ingest/events', { body: { ...event, sessionId } });
const [stored] = data ?? [];
if (stored === undefined || !('sessionId' in stored)) throw new Error('the event was not stored');
console.log(JSON.stringify({ sessionId, stored: stored.sessionId }));
// @ts-expect-error the path does not exist
const missing = () => client.GET('/v1/nothing');
// @ts-expect-error a session has no such field
const wrong = (): unknown => session.data.level;
void [missing, wrong];
`;

const OPERATOR = `${CLIENT}
const { data } = await client.GET('/admin/projects');
console.log(JSON.stringify(data?.map(({ id, tenantId, name }) => ({ id, tenantId, name }))));
// @ts-expect-error a project needs a tenant
const wrong = () => client.POST('/admin/projects', { body: { name: 'a game' } });
void wrong;
`;

const shared = sharedProduct();
let packages: string | undefined;

beforeAll(() => {
  try {
    packages = installPackages('questlog-generator', PACKAGES);
  } catch (error) {
    const lack = `the generator cannot be installed: ${messageOf(error).split('\n')[0]}`;
    failIfRequired('generator', lack);
    console.warn(`skipped: ${lack}`);
  }
});

test('a game sends an event with a client that is generated from the games’ document', async ({ skip }) => {
  if (packages === undefined) return skip('the generator cannot be installed');
  const { baseUrl, token } = shared.product.credentials;
  const { sessionId, stored } = JSON.parse(await run(packages, GAME, baseUrl, token));
  expect([sessionId, stored]).toEqual([expect.any(String), sessionId]);
});

test('an operator lists projects with a client that is generated from the operators’ document', async ({
  skip,
}) => {
  if (packages === undefined) return skip('the generator cannot be installed');
  const { adminUrl, adminToken } = shared.product.credentials;
  const project = await shared.aProject();
  const projects = JSON.parse(await run(packages, OPERATOR, adminUrl, adminToken));
  expect(projects).toContainEqual(
    expect.objectContaining({ id: project.projectId, tenantId: project.tenantId }),
  );
});

/** Generates the types, type-checks the program, runs the program, and returns its output. */
async function run(packages: string, program: string, url: string, token: string): Promise<string> {
  // Node does not run TypeScript below `node_modules`.
  const folder = mkdtempSync(join(tmpdir(), 'questlog-generated-'));
  try {
    symlinkSync(join(packages, 'node_modules'), join(folder, 'node_modules'), 'dir');
    writeFileSync(join(folder, 'openapi.json'), await (await fetch(`${url}/openapi.json`)).text());
    writeFileSync(join(folder, 'package.json'), '{"type":"module","private":true}');
    writeFileSync(join(folder, 'program.ts'), program);
    const node = (...args: string[]): string =>
      execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    node('node_modules/openapi-typescript/bin/cli.js', 'openapi.json', '-o', 'api.d.ts');
    const options = '--noEmit --strict --module nodenext --target esnext --skipLibCheck --types node';
    const paths = ['--typeRoots', join(ROOT, 'node_modules/@types'), '--allowImportingTsExtensions'];
    const tsc = join(ROOT, 'node_modules/.bin/tsc');
    const checked = spawnSync(tsc, [...options.split(' '), ...paths, 'program.ts'], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect([checked.status, checked.stdout]).toEqual([0, '']);
    return node('program.ts', url, token);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Tests that the id of a build never changes. Stored data refers to builds by their ids. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { type Build, buildIdOf } from './buildId.ts';
import { canonicalUuid } from './uuid.ts';

const PROJECT = '01a1fe02-7454-7000-a110-3027adf24232';
const BUILD: Build = { version: '1.4.2', platform: 'Web', gitCommit: '5d0c1f7e9a2b', channel: 'dev' };

test.each<[of: Build, id: string]>([
  [BUILD, '74cfa6a7-bf22-8fde-ad8c-b9a9e8750976'],
  [{ ...BUILD, gitCommit: null, channel: null }, '3a7af651-5cbb-8c65-aa90-ca984038743e'],
  [{ ...BUILD, version: '1.4.2-ünï 🗡️' }, '3a3f3cfc-8c58-83b9-ac7a-54fc79cfd15f'],
])('the id of %j has not changed', (build, id) => {
  expect(buildIdOf(PROJECT, build)).toBe(id);
});

test('is a UUIDv8', () => {
  const id = buildIdOf(randomUUID(), BUILD);
  expect(canonicalUuid(id)).toBe(id);
  expect(id).toMatch(/^.{14}8.{4}[89ab]/);
});

test('each field changes the id, and shifting text between fields changes it too', () => {
  const builds: [string, Build][] = [
    [PROJECT, BUILD],
    [randomUUID(), BUILD],
    [PROJECT, { ...BUILD, version: '1.4.3' }],
    [PROJECT, { ...BUILD, platform: 'web' }],
    [PROJECT, { ...BUILD, gitCommit: null }],
    [PROJECT, { ...BUILD, channel: null }],
    [PROJECT, { ...BUILD, gitCommit: 'dev', channel: null }],
    [PROJECT, { ...BUILD, version: '1.4.2W', platform: 'eb' }],
    [PROJECT, { ...BUILD, version: '1.4.2\0\0\0\u0003Web', platform: '' }],
  ];
  const ids = new Set(builds.map(([projectId, build]) => buildIdOf(projectId, build)));
  expect(ids.size).toBe(builds.length);
});

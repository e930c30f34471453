/** Lints the published OpenAPI documents with the recommended rules of Redocly. */
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { expect, test } from 'vitest';
import { textOf } from './projectFiles.ts';

const config = await createConfig({ extends: ['recommended'] });

test.each(['openapi.json', 'openapi-admin.json'])('%s has no error and no warning', async (name) => {
  const absoluteRef = `docs/reference/${name}`;
  const problems = await lintFromString({ source: textOf(absoluteRef), absoluteRef, config });
  expect(
    problems.map(({ ruleId, message, location: [place] }) => `${ruleId}: ${message} ${place?.pointer}`),
  ).toEqual([]);
});

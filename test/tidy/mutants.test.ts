/** Checks that the planted bugs and the listed survivors match the current sources; a bug that cannot be planted proves nothing. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PLANTED_BUGS } from '../mutation/plantedBugs.ts';
import { SURVIVORS } from '../mutation/survivors.ts';
import { ROOT, textOf } from './projectFiles.ts';

test.each(PLANTED_BUGS)('"$name" can be planted, and its tests exist', (bug) => {
  expect(textOf(bug.file).split(bug.text)).toHaveLength(2);
  expect(bug.by).not.toBe(bug.text);
  expect(bug.tests.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test('each planted bug and each reason for a survivor is listed once', () => {
  const names = PLANTED_BUGS.map(({ name }) => name);
  const places = SURVIVORS.map(({ file, line }) => `${file} ${line}`);
  expect(names).toEqual([...new Set(names)]);
  expect(places).toEqual([...new Set(places)]);
});

test('every survivor’s line is in its file', () => {
  const gone = SURVIVORS.filter(
    ({ file, line }) =>
      !textOf(file)
        .split('\n')
        .some((one) => one.includes(line)),
  );
  expect(gone).toEqual([]);
});

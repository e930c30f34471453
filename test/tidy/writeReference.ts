/** `npm run docs:reference`: writes `docs/reference`, `docs/evidence`, `schemas/readers`, the dashboards, and the chart's README. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chartReadme } from '../helm/chartReadme.ts';
import { dashboardFiles, FOLDER } from '../monitoring/dashboards/dashboards.ts';
import { ROOT } from './projectFiles.ts';
import { READERS, readerSchemas } from './reference/readerSchemas.ts';
import { evidencePages, REFERENCE, referencePages } from './referencePages.ts';

mkdirSync(join(ROOT, REFERENCE), { recursive: true });
for (const [name, text] of Object.entries(await referencePages())) {
  writeFileSync(join(ROOT, REFERENCE, name), text);
  process.stdout.write(`${REFERENCE}/${name}\n`);
}
for (const folder of [READERS, FOLDER]) mkdirSync(join(ROOT, folder), { recursive: true });
for (const [path, text] of Object.entries({
  ...readerSchemas(),
  ...evidencePages(),
  ...dashboardFiles(),
  ...(await chartReadme()),
})) {
  writeFileSync(join(ROOT, path), text);
  process.stdout.write(`${path}\n`);
}

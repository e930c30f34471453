/** `npm run docs:reference`: writes the pages of `docs/reference` and `docs/evidence`, and `schemas/readers`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './projectFiles.ts';
import { READERS, readerSchemas } from './reference/readerSchemas.ts';
import { evidencePages, REFERENCE, referencePages } from './referencePages.ts';

mkdirSync(join(ROOT, REFERENCE), { recursive: true });
for (const [name, text] of Object.entries(await referencePages())) {
  writeFileSync(join(ROOT, REFERENCE, name), text);
  process.stdout.write(`${REFERENCE}/${name}\n`);
}
mkdirSync(join(ROOT, READERS), { recursive: true });
for (const [path, text] of Object.entries({ ...readerSchemas(), ...evidencePages() })) {
  writeFileSync(join(ROOT, path), text);
  process.stdout.write(`${path}\n`);
}

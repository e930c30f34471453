/** `npm run docs:reference`: writes the pages of `docs/reference`, `schemas/readers`, `docs/evidence/reliability.md`, `docs/evidence/security.md` and `docs/evidence/performance.md`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SECURITY_PAGE, securityPage } from '../abuse/securityPage.ts';
import { PERFORMANCE_PAGE, performancePage } from '../bench/path/performancePage.ts';
import { PAGE, reliabilityPage } from '../faults/campaign/reliabilityPage.ts';
import { readResults } from '../faults/campaign/results.ts';
import { ROOT } from './projectFiles.ts';
import { READERS, readerSchemas } from './reference/readerSchemas.ts';
import { REFERENCE, referencePages } from './referencePages.ts';

mkdirSync(join(ROOT, REFERENCE), { recursive: true });
for (const [name, text] of Object.entries(await referencePages())) {
  writeFileSync(join(ROOT, REFERENCE, name), text);
  process.stdout.write(`${REFERENCE}/${name}\n`);
}
mkdirSync(join(ROOT, READERS), { recursive: true });
for (const [path, text] of Object.entries(readerSchemas())) {
  writeFileSync(join(ROOT, path), text);
  process.stdout.write(`${path}\n`);
}
writeFileSync(join(ROOT, PAGE), reliabilityPage(readResults()));
process.stdout.write(`${PAGE}\n`);
writeFileSync(join(ROOT, SECURITY_PAGE), securityPage());
process.stdout.write(`${SECURITY_PAGE}\n`);
writeFileSync(join(ROOT, PERFORMANCE_PAGE), performancePage());
process.stdout.write(`${PERFORMANCE_PAGE}\n`);

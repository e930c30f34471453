/**
 * `npm run lock:complete`: adds missing checksums to package-lock.json. npm records no checksum for a package of another
 * platform that it did not install. The script requests the checksums from the registry and lists packages without one.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './projectFiles.ts';

const path = join(ROOT, 'package-lock.json');
const lock: { packages: Record<string, { version?: string; integrity?: string; link?: boolean }> } =
  JSON.parse(readFileSync(path, 'utf8'));

for (const [place, entry] of Object.entries(lock.packages)) {
  if (!place.includes('node_modules/') || entry.link === true || entry.integrity !== undefined) continue;
  const wanted = `${place.split('node_modules/').at(-1)}@${entry.version}`;
  const found = integrityOf(wanted);
  if (found !== '') entry.integrity = found;
  process.stdout.write(`${wanted}: ${found === '' ? 'the registry does not have it' : found}\n`);
}
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);

function integrityOf(wanted: string): string {
  try {
    return execFileSync('npm', ['view', wanted, 'dist.integrity'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return '';
  }
}

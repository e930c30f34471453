/** Installs npm packages that single tests need, outside the dependencies of the project. */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './tidy/projectFiles.ts';

/** Installs the packages in a folder of the cache and returns the path of the folder. @throws Error without a registry */
export function installPackages(name: string, packages: readonly string[]): string {
  const folder = join(ROOT, 'node_modules/.cache', name);
  mkdirSync(folder, { recursive: true });
  const how = ['--omit=optional', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  execFileSync('npm', ['install', '--prefix', folder, ...how, ...packages], {
    stdio: 'pipe',
    shell: process.platform === 'win32',
  });
  return folder;
}

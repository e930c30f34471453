/** Builds the package: the type declarations, one minified module per entry, and the license. */
import { spawnSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { rolldown } from 'rolldown';

copyFileSync('../../LICENSE', 'LICENSE');

const ENTRIES = ['client', 'indexedDb', 'file', 'automatic'];

for (const entry of ENTRIES) {
  const built = await rolldown({ input: `src/${entry}.ts`, platform: 'neutral', external: /^node:/ });
  await built.write({ file: `dist/${entry}.js`, format: 'esm', minify: true });
}
const types = [
  '--noEmit',
  'false',
  '--declaration',
  '--emitDeclarationOnly',
  '--rootDir',
  'src',
  '--outDir',
  'dist',
];
const { status } = spawnSync('tsc', ['-p', 'tsconfig.json', ...types], { stdio: 'inherit' });
process.exitCode = status ?? 1;

// `node deploy/node24.mjs <file> …` runs a file with Node 24 or newer: this Node, or the one that `npm ci` installed
// (older npm versions do not add it to the PATH of scripts). Plain JavaScript, so that any Node can run it.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { constants } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';

const MINIMUM_MAJOR = 24;
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'];

const [file, ...args] = process.argv.slice(2);

// Compiling takes a third of a start, so compiled code is cached in a folder that only its owner can write. If the
// folder is not writable, nothing is cached. Child processes inherit the setting.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/node', import.meta.url));

if (Number(process.versions.node.split('.')[0]) >= MINIMUM_MAJOR) {
  process.argv = [process.execPath, file, ...args];
  module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);
  await import(pathToFileURL(file).href);
} else {
  const windows = process.platform === 'win32';
  const platform = windows ? 'win' : process.platform;
  const name = windows ? 'node.exe' : 'node';
  const installed = fileURLToPath(
    new URL(`../node_modules/node-${platform}-${process.arch}/bin/${name}`, import.meta.url),
  );
  if (existsSync(installed)) runUnder(installed);
  else {
    const here = `${process.platform}-${process.arch}`;
    console.error(
      `questlog: Node ${MINIMUM_MAJOR} or newer is needed on ${here}, this is ${process.versions.node}`,
    );
    process.exitCode = 1;
  }
}

function runUnder(node) {
  const child = spawn(node, [...process.execArgv, file, ...args], { stdio: 'inherit' });
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + constants.signals[signal];
  });
}

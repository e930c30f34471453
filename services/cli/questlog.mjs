#!/usr/bin/env node
// Starts the command with any version of Node. deploy/node24.mjs finds a Node that is new enough.
import { fileURLToPath } from 'node:url';

process.argv.splice(2, 0, fileURLToPath(new URL('./src/main.ts', import.meta.url)));
await import('../../deploy/node24.mjs');

#!/usr/bin/env node
// `npx questlog …` under whatever Node there is: deploy/node24.mjs finds one that is new enough.
import { fileURLToPath } from 'node:url';

process.argv.splice(2, 0, fileURLToPath(new URL('./src/main.ts', import.meta.url)));
await import('../../deploy/node24.mjs');

/** `npm run simulate:links -- --seeds N [--first S]`: runs the link simulation, and prints failing seeds. */
import { parseArgs } from 'node:util';
import { simulateLinks } from './linkSimulation.ts';
import { simulateSeeds, total } from './simulateSeeds.ts';

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '10000' }, first: { type: 'string', default: '1' } },
});
const [first, seeds] = [Number(values.first), Number(values.seeds)];
const startedAtMs = performance.now();
const { failed, outcomes } = await simulateSeeds(simulateLinks, first, seeds);
for (const { seed, findings } of failed) {
  process.stdout.write(`seed ${seed}\n${findings.map((finding) => `  ${finding}\n`).join('')}`);
}
const seconds = (performance.now() - startedAtMs) / 1000;
const [links, crashes] = [total(outcomes, ({ links: of }) => of), total(outcomes, ({ crashes: of }) => of)];
process.stdout.write(
  `${seeds} seeds from ${first}: ${links} records of links, ${crashes} crashes, ${failed.length} failed, ${seconds.toFixed(1)} s\n`,
);
process.exitCode = failed.length === 0 ? 0 : 1;

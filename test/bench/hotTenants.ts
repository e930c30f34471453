/**
 * `npm run bench:hot-tenants`: one tenant at full load on a real Kafka, spread over more and more partitions, and what
 * that takes. Fails when the quota or ClickHouse has not every event that was answered.
 */
import { fileURLToPath } from 'node:url';
import { messageOf } from '@questlog/runtime/process/errors';
import type { ClusterEngines } from '../e2e/cluster.ts';
import { measureHotTenants } from './hotTenantsMeasure.ts';
import { givenEngines, type HotTenantsOptions, hotTenantsOptions } from './hotTenantsOptions.ts';
import { hotTenantRows } from './hotTenantsReport.ts';
import { page } from './linksReport.ts';
import { putIntoPage } from './loadReport.ts';

const PAGE = fileURLToPath(new URL('../../docs/operating/hot-tenants.md', import.meta.url));

const asked = whatIsAsked();
if (asked !== undefined) await run(asked.engines, asked.options);

/** Undefined after a line that says what is wrong with it. */
function whatIsAsked(): { engines: ClusterEngines; options: HotTenantsOptions } | undefined {
  try {
    return { options: hotTenantsOptions(process.argv.slice(2)), engines: givenEngines(process.env) };
  } catch (error) {
    process.stderr.write(`bench:hot-tenants: ${messageOf(error)}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

async function run(engines: ClusterEngines, options: HotTenantsOptions): Promise<void> {
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const figures = await measureHotTenants(engines, options, say);
  const report = page(hotTenantRows(figures, options));
  say(`\n${report}`);
  if (options.isWritten) putIntoPage(PAGE, report);
}

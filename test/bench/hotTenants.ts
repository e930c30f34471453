/**
 * `npm run bench:hot-tenants`: loads one tenant on a real Kafka with increasing spreads and measures the cost. Fails if the
 * quota or ClickHouse lacks an acknowledged event.
 */
import { messageOf } from '@questlog/runtime/process/errors';
import type { ClusterEngines } from '../e2e/cluster.ts';
import { page } from './figuresPage.ts';
import { measureHotTenants } from './hotTenants/hotTenantsMeasure.ts';
import { givenEngines, type HotTenantsOptions, hotTenantsOptions } from './hotTenants/hotTenantsOptions.ts';
import { hotTenantRows } from './hotTenants/hotTenantsReport.ts';

const asked = whatIsAsked();
if (asked !== undefined) await run(asked.engines, asked.options);

/** Parses the flags. Returns undefined after printing a problem of the flags or engines. */
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
}

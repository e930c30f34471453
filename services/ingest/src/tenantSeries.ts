/** Metric with one time series per tenant. The number of time series is limited. */

/** Maximum number of tenants with their own series. Each series costs Prometheus a few KiB of memory. */
export const MAX_TENANTS = 50;
export const OTHER_TENANTS = 'other';

interface TenantCount {
  total: number;
  /** Part of `total` that an earlier `collect` has already added to a time series. */
  collected: number;
}

/**
 * Only the tenants with the highest counts have their own time series. All other tenants share the series `other`. If a tenant
 * gets its own series later, the series starts at zero, so that `other` never decreases.
 */
export class TenantSeries {
  readonly #maxTenants: number;
  readonly #counts = new Map<string, TenantCount>();
  #series = new Map<string, number>();
  #other = 0;

  constructor(maxTenants = MAX_TENANTS) {
    this.#maxTenants = maxTenants;
  }

  add(tenantId: string, count: number): void {
    const counted = this.#counts.get(tenantId);
    if (counted === undefined) this.#counts.set(tenantId, { total: count, collected: 0 });
    else counted.total += count;
  }

  /** Returns the value of each time series by tenant id. */
  collect(): ReadonlyMap<string, number> {
    const top = [...this.#counts].sort(([, a], [, b]) => b.total - a.total).slice(0, this.#maxTenants);
    const series = new Map(top.map(([tenantId]) => [tenantId, this.#series.get(tenantId) ?? 0]));
    for (const [tenantId, counted] of this.#counts) {
      const added = counted.total - counted.collected;
      counted.collected = counted.total;
      const shown = series.get(tenantId);
      if (shown === undefined) this.#other += added;
      else series.set(tenantId, shown + added);
    }
    this.#series = series;
    return new Map([...series, [OTHER_TENANTS, this.#other]]);
  }
}

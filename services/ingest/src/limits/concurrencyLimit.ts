/**
 * Limits the concurrent use of a resource. A tenant gets a permit only if its number of permits is smaller than the number of
 * free permits.
 */
export interface ProjectIds {
  readonly tenantId: string;
  readonly projectId: string;
}

export class ConcurrencyLimit {
  readonly #max: number;
  readonly #maxPerProject: number;
  readonly #permits = new Set<ProjectIds>();

  constructor(max: number, maxPerProject = max) {
    this.#max = max;
    this.#maxPerProject = maxPerProject;
  }

  get inUse(): number {
    return this.#permits.size;
  }

  /** Acquires a permit. Returns a function that releases the permit, or undefined if the tenant has reached its limit. */
  acquire({ tenantId, projectId }: ProjectIds): (() => void) | undefined {
    const inUse = [...this.#permits];
    const ofTenant = inUse.filter((one) => one.tenantId === tenantId).length;
    const ofProject = inUse.filter((one) => one.projectId === projectId).length;
    if (ofTenant >= this.#max - inUse.length || ofProject >= this.#maxPerProject) return undefined;
    const permit = { tenantId, projectId };
    this.#permits.add(permit);
    return () => void this.#permits.delete(permit);
  }
}

/**
 * Limits concurrent use of a resource, such as open streams. A tenant gets a permit only if it has fewer permits than are free.
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

  /** Acquires a permit. Returns the function that releases the permit. Undefined if the limit is reached for this caller. */
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

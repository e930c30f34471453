/** Places that few can have at a time, such as open streams. A tenant that has many leaves as many for the others. */
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

  /** @returns what gives the place back; undefined: there is none for this holder. */
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

/** Places that few can have at a time, such as open streams. A tenant that has many leaves as many for the others. */
export interface Holder {
  readonly tenantId: string;
  readonly projectId: string;
}

export class Places {
  readonly #max: number;
  readonly #maxOfProject: number;
  readonly #taken = new Set<Holder>();

  constructor(max: number, maxOfProject = max) {
    this.#max = max;
    this.#maxOfProject = maxOfProject;
  }

  get taken(): number {
    return this.#taken.size;
  }

  /** @returns what gives the place back; undefined: there is none for this holder. */
  take({ tenantId, projectId }: Holder): (() => void) | undefined {
    const taken = [...this.#taken];
    const ofTenant = taken.filter((one) => one.tenantId === tenantId).length;
    const ofProject = taken.filter((one) => one.projectId === projectId).length;
    if (ofTenant >= this.#max - taken.length || ofProject >= this.#maxOfProject) return undefined;
    const place = { tenantId, projectId };
    this.#taken.add(place);
    return () => void this.#taken.delete(place);
  }
}

/** Map with a budget. Evicts the oldest entries if the total weight of the entries exceeds the budget. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #maxWeight: number;
  readonly #weightOf: (value: V) => number;
  #weight = 0;

  /** @param weightOf returns the weight of a value, for example its bytes. By default, each entry has the weight 1. */
  constructor(maxWeight: number, weightOf: (value: V) => number = () => 1) {
    super();
    this.#maxWeight = maxWeight;
    this.#weightOf = weightOf;
  }

  get weight(): number {
    return this.#weight;
  }

  /** Returns the value, and makes its entry the newest entry. */
  touch(key: K): V | undefined {
    const value = this.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  /** Sets the value, and makes its entry the newest entry. */
  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    this.#weight += this.#weightOf(value);
    if (this.#weight > this.#maxWeight) this.#evictOldest();
    return this;
  }

  #evictOldest(): void {
    for (const oldest of this.keys()) {
      this.delete(oldest);
      if (this.#weight <= this.#maxWeight) return;
    }
  }

  override delete(key: K): boolean {
    const value = this.get(key);
    if (value !== undefined) this.#weight -= this.#weightOf(value);
    return super.delete(key);
  }
}

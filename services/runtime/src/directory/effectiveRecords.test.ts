/** Tests that all readers of one compacted log compute the same entity. */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LogRecord, NewRecord } from '../log/log.ts';
import { COPY_OF_HEADER, EffectiveRecords, PREDECESSOR_HEADER } from './effectiveRecords.ts';

const PROCESSES = 3;
const KEY = 'tenant:t';

const by = fc.nat(PROCESSES - 1);
const steps = fc.array(
  fc.oneof(
    fc.record({ does: fc.constant('read'), by, records: fc.nat(3) } as const),
    fc.record({ does: fc.constant('decide'), by, isTombstone: fc.boolean() } as const),
    fc.record({ does: fc.constant('append'), by } as const),
    fc.record({ does: fc.constant('repeat'), by } as const),
    fc.record({ does: fc.constant('restart'), by } as const),
    fc.record({ does: fc.constant('compact'), behind: fc.nat(4), kept: fc.array(fc.boolean()) } as const),
  ),
  { maxLength: 60, size: 'max' },
);

test('readers that started after different compactions agree, and stop appending copies', () => {
  fc.assert(
    fc.property(steps, (taken) => {
      const { log, readers } = run(taken, { isHasty: true });
      // All processes append copies in the same round. After one round, every process has the effective record.
      for (let rounds = 0; rounds < 2; rounds++) {
        for (const reader of readers) reader.readOn();
        for (const repeat of readers.map((reader) => reader.repeat())) if (repeat) log.append(repeat);
      }
      for (const reader of readers) reader.readOn();
      expect(readers.map((reader) => reader.repeat())).toEqual(readers.map(() => undefined));
      log.compact(log.end, []);
      const states = [...readers, new Reader(log)].map((reader) => reader.state());
      for (const state of states) expect(state).toEqual(states[0]);
    }),
    { numRuns: 2_000 },
  );
});

test('an effective change was decided on the previous effective change, and its process knows that it is effective', () => {
  fc.assert(
    fc.property(steps, (taken) => {
      const { log, readers } = run(taken, { isHasty: false });
      for (const reader of readers) reader.readOn();
      expect(log.surprises).toEqual([]);
      expect(new Reader(log).state()).toEqual(log.witness.state());
    }),
    { numRuns: 2_000 },
  );
});

test.each(['junk', 'Infinity', '1e300', '-7', '1.5', '100', '9007199254740991', ''])(
  'a record with the invalid predecessor offset %j is effective, and so is the next change',
  (junk) => {
    for (const name of [PREDECESSOR_HEADER, COPY_OF_HEADER]) {
      const predecessors = new EffectiveRecords();
      const record = { key: KEY, value: Buffer.from('x') };
      expect(predecessors.accept({ ...record, offset: 3, headers: { [name]: junk } })).toBe(true);
      const headers = predecessors.headersFor(KEY);
      expect(headers).toEqual({ [PREDECESSOR_HEADER]: '3' });
      expect(predecessors.accept({ ...record, offset: 4, headers })).toBe(true);
    }
  },
);

type Steps = typeof steps extends fc.Arbitrary<infer T> ? T : never;

/**
 * Runs the steps on a log with several processes. If `isHasty` is true, compaction can also remove effective records that have
 * no copy or that a running process has not read.
 */
function run(taken: Steps, { isHasty }: { readonly isHasty: boolean }) {
  const log = new FakeLog();
  const readers = Array.from({ length: PROCESSES }, () => new Reader(log));
  for (const step of taken) {
    if (step.does === 'compact') {
      const before = log.records;
      const read = isHasty ? [] : readers.map(({ position }) => position);
      log.compact(Math.min(log.end - step.behind, ...read), step.kept);
      const isWhole = isDeepStrictEqual(new Reader(log).state(), log.witness.state());
      if (!isWhole && !isHasty) log.records = before;
      continue;
    }
    const reader = readers[step.by] ?? new Reader(log);
    if (step.does === 'read') reader.readOn(step.records);
    if (step.does === 'decide') reader.decide(step.isTombstone);
    if (step.does === 'append') reader.append();
    const repeat = step.does === 'repeat' ? reader.repeat() : undefined;
    if (repeat !== undefined) log.append(repeat);
    if (step.does === 'restart') readers[step.by] = new Reader(log);
  }
  return { log, readers };
}

class FakeLog {
  records: readonly LogRecord[] = [];
  end = 0;
  decided = 0;
  /** Changes that are effective although their predecessor is ineffective, and changes about which their process is wrong. */
  readonly surprises: number[] = [];
  /** Reader that has read every record. */
  readonly witness = new Reader(this);

  append(record: NewRecord): number {
    this.records = [...this.records, { headers: {}, timestampMs: 0, ...record, offset: this.end }];
    this.witness.readOn();
    return this.end++;
  }

  /** Keeps the last record below `end` and the `kept` records, as an incomplete compaction does. */
  compact(end: number, kept: readonly boolean[]): void {
    const last = this.records.findLast(({ offset }) => offset < end);
    this.records = this.records.filter(
      (record) => record.offset >= end || record === last || kept[record.offset] === true,
    );
  }
}

/** Process whose entity is the list of its changes. */
class Reader {
  entity: string | undefined;
  position = 0;
  readonly counted = new Map<number, boolean>();
  readonly #log: FakeLog;
  readonly #predecessors = new EffectiveRecords();
  readonly #own = new Set<number>();
  #decided: { readonly record: NewRecord; readonly on: string | undefined } | undefined;

  constructor(log: FakeLog) {
    this.#log = log;
    this.readOn();
  }

  readOn(limit = Number.POSITIVE_INFINITY): void {
    const records = this.#log.records.filter(({ offset }) => offset >= this.position).slice(0, limit);
    for (const record of records) {
      const { offset, value } = record;
      this.position = offset + 1;
      const counts = this.#predecessors.accept(record);
      if (counts) this.entity = value?.toString();
      this.counted.set(offset, counts);
      const { witness, surprises } = this.#log;
      if (this.#own.has(offset) && witness.counted.get(offset) !== counts) surprises.push(offset);
    }
  }

  decide(isTombstone: boolean): void {
    this.readOn();
    const name = `change-${this.#log.decided++}`;
    const value = isTombstone ? null : Buffer.from([this.entity ?? [], name].flat().join(' '));
    const headers = this.#predecessors.headersFor(KEY);
    this.#decided = { record: { key: KEY, value, headers }, on: this.entity };
  }

  append(): void {
    if (this.#decided === undefined) return;
    const { witness, surprises } = this.#log;
    const before = witness.entity;
    const offset = this.#log.append(this.#decided.record);
    this.#own.add(offset);
    if (witness.counted.get(offset) && before !== this.#decided.on) surprises.push(offset);
    this.#decided = undefined;
  }

  repeat(): NewRecord | undefined {
    return this.#predecessors.copyFor(KEY);
  }

  state() {
    return { entity: this.entity, headers: this.#predecessors.headersFor(KEY) };
  }
}

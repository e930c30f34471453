/**
 * Measures the appends that the linker remembers, in a process with `--expose-gc`: changelog bytes per byte of events, and the
 * memory of a process with all partitions. Prints one line of JSON.
 */
import { randomUUID } from 'node:crypto';
import { decideEvents } from '@questlog/linker/core/decideEvents';
import { LINKER_BOUNDS, LinkerState, positionEntry } from '@questlog/linker/core/linkerState';
import { SessionFilter } from '@questlog/linker/core/sessionFilter';
import { createCodec } from '@questlog/runtime/registry/registry';
import { anEventsRecord } from '@questlog/schemas/fixtures/builders';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { linkerState, NO_EPOCHS, POSITION_KEY } from '@questlog/schemas/topics/linkerState';
import { usedBytes } from '../processFigures.ts';

export interface ChangelogFigures {
  /** Changelog bytes per byte of appends with one event, by the number of appends per commit. */
  readonly written: readonly { readonly appends: number; readonly bytes: number }[];
  readonly partitions: number;
  /** Memory of all partitions with the maximum number of appends. */
  readonly heldBytes: number;
}

const COMMITS = 2_000;
const APPENDS_A_COMMIT = [1, 10, 100];
const PARTITIONS = 100;
const REMEMBERED = 51_200;
const registry = { register: async () => 1, schemaById: async () => undefined };
const codecs = {
  events: await createCodec(registry, eventsInBytes),
  state: await createCodec(registry, linkerState),
};

const figures: ChangelogFigures = {
  written: APPENDS_A_COMMIT.map((appends) => ({ appends, bytes: bytesAnEventByte(appends) })),
  partitions: PARTITIONS,
  heldBytes: await heldBytes(),
};
process.stdout.write(`${JSON.stringify(figures)}\n`);

function bytesAnEventByte(appendsACommit: number): number {
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  let [eventBytes, changelogBytes] = [0, 0];
  for (let commit = 0; commit < COMMITS; commit++) {
    for (let i = 0; i < appendsACommit; i++) {
      const message = anEventsRecord({
        events: [{ payload: Buffer.from('{"level":3,"zone":"glass_forest"}') }],
      });
      eventBytes += codecs.events.encode(message).length;
      const place = { offset: commit, arrivedAtMs: message.receivedAt };
      state.evolve(decideEvents(state, place, message, message.receivedAt).changes);
    }
    const position = positionEntry({ events: commit, reportLinks: 0, ...NO_EPOCHS });
    for (const { key, entry } of [...state.drain(), { key: POSITION_KEY, entry: position }]) {
      changelogBytes += key.length + (entry === null ? 0 : codecs.state.encode(entry).length);
    }
  }
  return changelogBytes / eventBytes;
}

async function heldBytes(): Promise<number> {
  const before = await usedBytes();
  const sessions = new SessionFilter(LINKER_BOUNDS.sessionsWithReports);
  const states = Array.from(
    { length: PARTITIONS },
    (_, partition) => new LinkerState(partition, PARTITIONS, LINKER_BOUNDS, sessions),
  );
  for (const state of states) {
    for (let at = 0; at < REMEMBERED; at++) {
      // Creates a flat string, like a decoded one.
      const id = Buffer.from(randomUUID(), 'latin1').toString('latin1');
      state.evolve([{ entry: 'append', id, arrivedAtMs: at }]);
      if (at % 10 === 9) state.drain();
    }
  }
  const bytes = (await usedBytes()) - before;
  // Uses the states, so that they are not collected earlier.
  if (states.some(({ appends }) => appends.since < 0)) throw new Error('a time before all times');
  return bytes;
}

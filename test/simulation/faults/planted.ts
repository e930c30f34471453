/** Plants a bug of the mutation tests into a module when it is loaded, without changing files. */
import { registerHooks } from 'node:module';
import { PLANTED_BUGS, type PlantedBug } from '../../mutation/plantedBugs.ts';

/** Modules of adapters, which the simulation replaces. */
const BELOW_THE_PORTS = /log\/(kafka|embedded)\//;
/** Reasons why the simulation cannot find a bug in other modules. */
const UNSEEN: Readonly<Record<string, string>> = {
  'rejected record without a dead letter': 'the simulated ClickHouse rejects no record',
  'repair before late inserts have ended':
    'in runs with truncations and late inserts, a partition keeps its owner',
  'quota reservation kept':
    'flags near the quota are not checked, because they may change early or late after a crash',
  'result of a lagging replica accepted':
    'a later look-up finds the events that a look-up in a lagging replica missed',
  'retry of the oldest key missed': 'a run is too short for the eviction of a key',
  'events of another tenant linked': 'sessions of two tenants never have the same id',
};

export const SEEN: readonly PlantedBug[] = PLANTED_BUGS.filter(
  ({ name, file }) => !BELOW_THE_PORTS.test(file) && UNSEEN[name] === undefined,
);

/** Plants the bug into modules that are imported later. */
export function plant(name: string): void {
  const bug = PLANTED_BUGS.find((one) => one.name === name);
  if (bug === undefined) throw new Error(`there is no bug named ${name}`);
  const { file, text, by } = bug;
  registerHooks({
    load: (url, context, next) => {
      const loaded = next(url, context);
      if (!url.endsWith(`/${file}`)) return loaded;
      return { ...loaded, source: String(loaded.source).replace(text, () => by) };
    },
  });
}

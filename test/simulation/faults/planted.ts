/** Plants a bug of the mutation tests into a source as it is loaded: no file is changed. */
import { registerHooks } from 'node:module';
import { PLANTED_BUGS, type PlantedBug } from '../../mutation/plantedBugs.ts';

/** Those of adapters, below the ports that are simulated. */
const BELOW_THE_PORTS = /log\/(kafka|embedded)\//;
/** Why the simulation cannot see one above them. */
const UNSEEN: Readonly<Record<string, string>> = {
  'refused record without a dead letter': 'no record is refused by the simulated ClickHouse',
  'quota reservation kept': 'flags near the line are not judged: after a crash they may come early or late',
  'repeat of the oldest key overlooked': 'a run is too short for a partition to forget a key',
  'events of another tenant linked': 'sessions of two tenants never have one id',
};

export const SEEN: readonly PlantedBug[] = PLANTED_BUGS.filter(
  ({ name, file }) => !BELOW_THE_PORTS.test(file) && UNSEEN[name] === undefined,
);

/** Into what is imported from now on. */
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

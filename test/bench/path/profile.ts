/** Records the CPU profile of a loaded process through its inspector. */
import type { ProfileEntry } from './pathFigures.ts';

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  /** Node ids, and the microseconds before each sample. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const ENTRIES = 10;

/** Returns the functions with the highest own time during `work`. */
export async function profiled(inspectorUrl: string, work: () => Promise<unknown>): Promise<ProfileEntry[]> {
  const inspector = await openInspector(inspectorUrl);
  try {
    await inspector.ask('Profiler.enable');
    await inspector.ask('Profiler.start');
    await work();
    const { profile } = (await inspector.ask('Profiler.stop')) as { profile: CpuProfile };
    return mostOwnTime(profile);
  } finally {
    inspector.close();
  }
}

/** Returns the functions with the highest own time, in percent of the busy time. */
export function mostOwnTime({ nodes, samples, timeDeltas }: CpuProfile): ProfileEntry[] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const micros = new Map<string, { function: string; file: string; micros: number }>();
  let worked = 0;
  for (const [i, id] of samples.entries()) {
    const frame = frames.get(id);
    if (frame === undefined || frame.functionName === '(idle)') continue;
    const took = timeDeltas[i] ?? 0;
    worked += took;
    const file = frame.url === '' ? '' : `${shortened(frame.url)}:${frame.lineNumber + 1}`;
    const key = `${frame.functionName} ${file}`;
    const entry = micros.get(key) ?? { function: frame.functionName || '(anonymous)', file, micros: 0 };
    entry.micros += took;
    micros.set(key, entry);
  }
  return [...micros.values()]
    .sort((a, b) => b.micros - a.micros)
    .slice(0, ENTRIES)
    .map((entry) => ({
      function: entry.function,
      file: entry.file,
      percent: (entry.micros / worked) * 100,
    }));
}

/** Returns the path from the root of the tree or of the packages. */
function shortened(url: string): string {
  return url.replace(/^file:\/\//, '').replace(/^.*\/(?=(services|schemas|node_modules)\/)/, '');
}

interface Inspector {
  ask(method: string): Promise<unknown>;
  close(): void;
}

async function openInspector(url: string): Promise<Inspector> {
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', () => reject(new Error(`no inspector at ${url}`)), { once: true });
  });
  let lastId = 0;
  const ask = (method: string): Promise<unknown> => {
    const id = ++lastId;
    return new Promise((resolve, reject) => {
      const take = ({ data }: MessageEvent): void => {
        const answer = JSON.parse(String(data));
        if (answer.id !== id) return;
        socket.removeEventListener('message', take);
        if (answer.error === undefined) resolve(answer.result);
        else reject(new Error(`${method}: ${answer.error.message}`));
      };
      socket.addEventListener('message', take);
      socket.send(JSON.stringify({ id, method }));
    });
  };
  return { ask, close: () => socket.close() };
}

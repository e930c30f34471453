/** Generates events like a game client's: payloads of about 300 bytes with the same shape and different values. */
import { type Random, seeded } from '../faults/seeded.ts';

const SEED = 20_260_101;
/** Number of different payloads, so that compression does not profit from repetition. */
const VARIANTS = 5_000;
const TYPES = ['player_action', 'state_change', 'checkpoint', 'performance', 'network', 'error'] as const;
const ZONES = ['harbour', 'old_mine', 'glass_forest', 'arena', 'citadel_gate'] as const;

export interface Telemetry {
  readonly random: Random;
  /** Returns the body of one request with `count` events, each of a random session. */
  batch(count: number, sessions: readonly string[]): Buffer;
}

export function openTelemetry(): Telemetry {
  const random = seeded(SEED);
  const tails = Array.from({ length: VARIANTS }, () => tail(random));
  return {
    random,
    batch: (count, sessions) => {
      const elements: string[] = [];
      for (let i = 0; i < count; i++) {
        const session = sessions[random.between(0, sessions.length - 1)] ?? '';
        elements.push(`{"sessionId":"${session}",${tails[random.between(0, VARIANTS - 1)] ?? ''}`);
      }
      return Buffer.from(`[${elements.join(',')}]`);
    },
  };
}

/** Returns the fields of an event after its session. */
function tail(random: Random): string {
  const coordinate = (): string => (random.next() * 4_000 - 2_000).toFixed(3);
  const payload = {
    tick: random.between(1, 4_000_000),
    zone: random.pick(ZONES),
    position: `${coordinate()} ${coordinate()} ${coordinate()}`,
    health: random.between(0, 100),
    stamina: random.between(0, 100),
    fps: Number((20 + random.next() * 120).toFixed(2)),
    frameMs: Number((random.next() * 40).toFixed(3)),
    pingMs: random.between(5, 240),
    weapon: `weapon_${random.between(1, 80)}`,
    quest: { name: `quest_${random.between(1, 400)}`, step: random.between(1, 12) },
    inventory: Array.from({ length: 6 }, () => random.between(1, 9_999)),
    client: `1.${random.between(0, 9)}.${random.between(0, 99)}`,
  };
  return `"eventType":"${random.pick(TYPES)}","payload":${JSON.stringify(payload)}}`;
}

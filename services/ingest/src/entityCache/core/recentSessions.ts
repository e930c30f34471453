/** Cache of recently used sessions. Finds a session by the 16 bytes of its id, without creating a string. */
import type { CachedSession } from './packedSessions.ts';

export interface RecentSession extends Pick<CachedSession, 'sessionId' | 'buildId' | 'lane' | 'player'> {
  readonly projectId: string;
  /** Build id as UTF-8 text. Null if the session has no build. */
  readonly build: Buffer | null;
}

/**
 * Number of cached sessions. Each session needs about 300 bytes. A new session replaces the cached session in the same slot.
 */
const SLOTS = 16_384;

export class RecentSessions {
  readonly #words: Uint32Array;
  readonly #sessions: (RecentSession | undefined)[];

  constructor(slots = SLOTS) {
    this.#words = new Uint32Array(slots * 4);
    this.#sessions = Array.from({ length: slots });
  }

  find(projectId: string, words: Uint32Array, at: number): RecentSession | undefined {
    const slot = this.#slotOf(words, at);
    const session = this.#sessions[slot];
    if (session === undefined || session.projectId !== projectId) return undefined;
    const slotWords = this.#words;
    const k = slot * 4;
    const isMatch =
      slotWords[k] === words[at] &&
      slotWords[k + 1] === words[at + 1] &&
      slotWords[k + 2] === words[at + 2] &&
      slotWords[k + 3] === words[at + 3];
    return isMatch ? session : undefined;
  }

  add(
    projectId: string,
    { sessionId, lane, buildId, player }: CachedSession,
    words: Uint32Array,
    at: number,
  ): RecentSession {
    const slot = this.#slotOf(words, at);
    const build = buildId === null ? null : Buffer.from(buildId);
    const session = { projectId, sessionId, lane, buildId, player, build };
    this.#sessions[slot] = session;
    for (let word = 0; word < 4; word++) this.#words[slot * 4 + word] = words[at + word] ?? 0;
    return session;
  }

  clear(): void {
    this.#sessions.fill(undefined);
  }

  /** Computes the slot from the last bits of the session id, because these bits are random in UUIDv4 and UUIDv7. */
  #slotOf(words: Uint32Array, at: number): number {
    return ((words[at + 3] ?? 0) ^ (words[at] ?? 0)) & (this.#sessions.length - 1);
  }
}

/** Plays a game on an ingest while a test moves its deployment to other processes. */
import { pause } from '@questlog/runtime/process/waiting';
import { expect } from 'vitest';
import type { Service } from '../cluster/deployment.ts';
import { aProject, events, onto } from '../e2e/builders.ts';

const PLAY_PACE_MS = 200;

/** Returns a game that sends events, and the ids of the acknowledged events. Each call of `play` sends one invalid event first. */
export async function aGame(ingest: Service) {
  const project = await aProject(ingest, { revision: 'A', spread: 4 });
  const { sessionId } = project;
  const accepted: string[] = [];
  let at = project;
  let isOver = false;
  const send = async (count: number): Promise<void> => {
    const answer = await at.post(events(count, { sessionId }));
    if (answer.status === 201) accepted.push(...answer.json().map(({ id }: { id: string }) => id));
  };
  const play = async (count: number): Promise<void> => {
    expect((await at.post([{ eventType: 7, sessionId }])).status).toBe(400);
    await send(count);
  };
  return {
    ...{ project, accepted, play },
    playUntilStopped: async () => {
      while (!isOver) {
        await send(1);
        await pause(PLAY_PACE_MS);
      }
    },
    moveTo: (other: Service) => {
      at = onto(project, other);
    },
    stop: () => {
      isOver = true;
    },
  };
}

/**
 * Two of each service under load: one of each is killed, later a new one joins, one is frozen and wakes up, an old one is
 * stopped. Nothing that was acknowledged is lost, counted twice or out of order, and each link is made once.
 */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { GROUPS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { seedOfRun } from '../faults/seeded.ts';
import { auditDeployment } from './auditDeployment.ts';
import type { Service, ServiceName } from './deployment.ts';
import { type Move, moved, settledMembers, type WatchedMoves } from './moves.ts';
import { startTrial, type Trial } from './trial.ts';

const RUN_WITHIN_MS = 900_000;
/** A run with fewer has proved nothing. */
const MIN_EVENTS = 2_000;
const MIN_LINKS = 200;

const TWO_OF_EACH: readonly ServiceName[] = [
  'ingest',
  'ingest',
  'linker',
  'linker',
  'projector',
  'projector',
];

const seed = seedOfRun();

describeKafka(`two of each service under load (QUESTLOG_SEED=${seed})`, (engines) => {
  let trial: Trial;
  let consumers: readonly { name: ServiceName; moves: WatchedMoves }[];

  beforeAll(async () => {
    trial = await startTrial(engines, TWO_OF_EACH, seed);
    const { projected, linked, view, deployment } = trial;
    const named = (group: string) => deployment.prefix + group;
    consumers = [
      { name: 'projector', moves: { view, watch: projected, group: named(GROUPS.projectEvents) } },
      { name: 'linker', moves: { view, watch: linked, group: named(GROUPS.link) } },
    ];
  });
  afterAll(() => trial?.end());

  test(
    'killed, joining, frozen and stopped consumers lose nothing, repeat nothing and keep the order of sessions',
    async () => {
      const { deployment, load } = trial;
      const both = await Promise.all(consumers.map(({ moves }) => settledMembers(moves, 2)));
      await trial.goesOn();

      const died = await Promise.all(
        consumers.map(async ({ name, moves }, i) => {
          const atMs = performance.now();
          await one(deployment.running(name)).kill();
          return await moved(moves, both[i] ?? new Map(), atMs);
        }),
      );
      await trial.goesOn();

      const unansweredBefore = load.unanswered;
      await one(deployment.running('ingest')).kill();
      await trial.goesOn();
      const unanswered = load.unanswered - unansweredBefore;

      const alone = await Promise.all(consumers.map(({ moves }) => settledMembers(moves, 1)));
      const joined = await Promise.all([
        ...consumers.map(async ({ name, moves }, i) => {
          const atMs = performance.now();
          const [move, service] = await Promise.all([
            moved(moves, alone[i] ?? new Map(), atMs),
            deployment.start(name),
          ]);
          return { ...move, readyMs: service.readyAtMs - service.startedAtMs };
        }),
      ]);
      await deployment.start('ingest');
      await trial.goesOn();

      const again = await Promise.all(consumers.map(({ moves }) => settledMembers(moves, 2)));
      const frozen = await Promise.all(
        consumers.map(async ({ name, moves }, i) => {
          const atMs = performance.now();
          const sleeper = one(deployment.running(name));
          sleeper.freeze();
          const move = await moved(moves, again[i] ?? new Map(), atMs);
          // It goes on with its next write, and does not know yet that another one owns the partition.
          sleeper.thaw();
          return move;
        }),
      );
      await trial.goesOn();

      const back = await Promise.all(consumers.map(({ moves }) => settledMembers(moves, 2)));
      const left = await Promise.all(
        consumers.map(async ({ name, moves }, i) => {
          const atMs = performance.now();
          const move = moved(moves, back[i] ?? new Map(), atMs);
          expect(await one(deployment.running(name)).stop()).toBe(0);
          return await move;
        }),
      );
      await trial.goesOn();

      await trial.settle();
      const { findings, events, links } = await auditDeployment(deployment, load);
      console.log(`consumers: ${events} events and ${links} links, ${unanswered} requests without an answer`);
      for (const [i, { name, moves }] of consumers.entries()) {
        console.log(`${name} killed: ${told(died[i])}`);
        console.log(`${name} started: ${told(joined[i])}`);
        console.log(`${name} frozen: ${told(frozen[i])}`);
        console.log(`${name} stopped: ${told(left[i])}`);
        console.log(`${name}: longest pause ${seconds(moves.watch.longestPauseMs)}`);
      }
      expect(findings).toEqual([]);
      expect(events).toBeGreaterThan(MIN_EVENTS);
      expect(links).toBeGreaterThan(MIN_LINKS);
    },
    RUN_WITHIN_MS,
  );
});

function one([first]: readonly Service[]): Service {
  if (first === undefined) throw new Error('none of them is running');
  return first;
}

function told(move: (Move & { readyMs?: number }) | undefined): string {
  if (move === undefined) return 'nothing moved';
  const { partitions, firstMs, allMs, readyMs } = move;
  const ready = readyMs === undefined ? '' : `ready after ${seconds(readyMs)}, `;
  return `${ready}${partitions.length} partitions, the first taken on after ${seconds(firstMs)}, all after ${seconds(allMs)}`;
}

function seconds(millis: number): string {
  return `${(millis / 1_000).toFixed(1)} s`;
}

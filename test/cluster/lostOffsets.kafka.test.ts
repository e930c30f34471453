/**
 * The linker and the projector are killed under load, and everything that their groups have committed is deleted: nothing
 * that was acknowledged is lost or there twice, each link is made once, counts are those of a recount.
 */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { GROUPS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { seedOfRun } from '../faults/seeded.ts';
import { auditDeployment } from './auditDeployment.ts';
import { startTrial, type Trial } from './trial.ts';

const ROUNDS = 2;
const RUN_WITHIN_MS = 600_000;
/** A killed member is one until its session ends. */
const EMPTY_WITHIN_MS = 60_000;

const seed = seedOfRun();

describeKafka(`group offsets that are lost (QUESTLOG_SEED=${seed})`, (engines) => {
  let trial: Trial;

  beforeAll(async () => {
    trial = await startTrial(engines, ['ingest', 'linker', 'projector'], seed);
  });
  afterAll(() => trial?.end());

  test(
    'deleted after a kill, they cost no event, no link and no count, and double none',
    async () => {
      const { deployment, view, load } = trial;
      for (let round = 0; round < ROUNDS; round++) {
        await trial.goesOn();
        for (const name of ['linker', 'projector'] as const)
          for (const service of deployment.running(name)) await service.kill();
        for (const group of Object.values(GROUPS))
          await eventually(
            () => view.deleteGroups([deployment.prefix + group]).then(() => 'deleted', String),
            (outcome) => outcome === 'deleted',
            EMPTY_WITHIN_MS,
          );
        await deployment.startAll('linker', 'projector');
      }
      await trial.goesOn();
      await trial.settle();
      const { findings, events, links } = await auditDeployment(deployment, load);
      console.log(`lost offsets: ${events} events and ${links} links`);
      expect(findings).toEqual([]);
      expect(events).toBeGreaterThan(500);
      expect(links).toBeGreaterThan(50);
    },
    RUN_WITHIN_MS,
  );
});

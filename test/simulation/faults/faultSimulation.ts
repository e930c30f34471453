/**
 * One run of the real ingest, projector, and linker on a simulated log, ClickHouse, clock, and network. The seed injects faults
 * between any two awaits while games play. Then the faults end, everything is delivered, and the result is checked.
 */
import type { Principal } from '@questlog/runtime/directory/directory';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { Tables } from '../clickhouse/tables.ts';
import { ClusterFaults } from '../cluster/clusterFaults.ts';
import { SimulatedCluster } from '../cluster/simulatedCluster.ts';
import type { Dice } from '../dice.ts';
import { SESSION_MS } from '../world/simulatedGroup.ts';
import { SimulatedLog } from '../world/simulatedLog.ts';
import { installVirtualTime } from '../world/virtualTime.ts';
import { LATEST_MS, NO_TROUBLES, type Troubles, World } from '../world/world.ts';
import { Erasures } from './erasures.ts';
import { Games } from './games.ts';
import { unpublished } from './publishedOffsets.ts';
import { aLinker, anIngest, aProjector, type Ingest, type Service } from './services.ts';
import { verdictOn } from './verdict.ts';

export interface Outcome {
  readonly findings: readonly string[];
  readonly acknowledged: number;
  readonly faults: number;
  /** Faults of the nodes of a cluster of ClickHouse. */
  readonly nodeFaults: number;
  /** Number of clusters: 1, or 0 if ClickHouse is a single server. */
  readonly clusters: number;
  readonly links: number;
  readonly steps: number;
}

/** @param trace called with each step */
export async function simulateFaults(seed: number, trace?: (line: string) => void): Promise<Outcome> {
  const world = new World(seed, trace);
  const putBack = installVirtualTime(world);
  const onUnhandled = (error: unknown): void => {
    world.findings.push(`unhandled error: ${error instanceof Error ? error.stack : error}`);
  };
  process.on('unhandledRejection', onUnhandled);
  try {
    return await new FaultSimulation(world).run();
  } finally {
    process.off('unhandledRejection', onUnhandled);
    putBack();
  }
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Time after the faults within which everything is delivered. */
const DELIVERED_WITHIN_MS = 4 * MINUTE_MS;
/** Time without new records after which all work is done. */
const QUIET_MS = 7_000;
/** Quiet time on a cluster, on which a lookup waits up to 10 s for a node that was paused. */
const QUIET_ON_CLUSTER_MS = 15_000;
/**
 * Quiet time after truncations. A repair waits until inserts can no longer take effect late. Then, a lookup that waits for lost
 * records gives up after 30 s.
 */
const QUIET_AFTER_CUTS_MS = LATEST_MS + 40_000;
const LOOK_MS = 500;
const MOST_ASKEW_MS = 6 * MINUTE_MS;

/** One of this number of seeds runs on a cluster of ClickHouse. */
const CLUSTER_SEEDS = 8;

class FaultSimulation {
  readonly #world: World;
  readonly #dice: Dice;
  readonly #log: SimulatedLog;
  readonly #tables: Tables | SimulatedCluster;
  /** Undefined if ClickHouse is a single server. */
  readonly #clusterFaults: ClusterFaults | undefined;
  readonly #games: Games;
  readonly #erasures: Erasures;
  readonly #isRestoring: boolean;
  /** True if ClickHouse executes inserts late in a run with truncations. */
  readonly #isLateAfterCuts: boolean;
  /** True for a quarter of the seeds. The other seeds check the counts and links, which an erasure changes. */
  readonly #isErasing: boolean;
  readonly #ingests: readonly Service<Ingest>[];
  /** All services. */
  readonly #services: readonly Service[];
  #faults = 0;
  #isCut = false;
  #aheadMs = 0;

  constructor(world: World) {
    this.#world = world;
    const { dice } = world;
    this.#dice = dice;
    const cluster = world.seed % CLUSTER_SEEDS === 0 ? new SimulatedCluster(world) : undefined;
    // The runs on a cluster have all variants, too.
    const variant = cluster === undefined ? world.seed : world.seed / CLUSTER_SEEDS;
    this.#isLateAfterCuts = variant % 8 === 5;
    // A log without leader epochs is embedded. An embedded ClickHouse executes no insert late, and is no cluster.
    const hasEpochs = this.#isLateAfterCuts || cluster !== undefined || dice.chance(0.5);
    this.#log = new SimulatedLog(world, hasEpochs);
    this.#tables = cluster ?? new Tables();
    this.#clusterFaults = cluster && new ClusterFaults(world, cluster, () => this.#killAll());
    this.#log.ensureTopics(topicDefinitions(dice.from([1, 2])));
    const isProjected = () => this.#lags(PROJECTED).length === 0;
    this.#erasures = new Erasures(world, this.#tables, isProjected);
    this.#isErasing = variant % 4 === 3;
    this.#isRestoring = variant % 8 === 1;
    const engines = {
      ...{ world, log: this.#log, tables: this.#tables },
      ...{ directory: this.#erasures.directory, isErasing: this.#isErasing },
    };
    this.#ingests = named('ingest', dice.from([1, 1, 2])).map((name) => anIngest(engines, name));
    this.#services = [
      ...this.#ingests,
      ...named('projector', dice.from([1, 1, 2])).map((name) => aProjector(engines, name)),
      ...named('linker', dice.from([1, 1, 2])).map((name) => aLinker(engines, name)),
    ] as Service[];
    this.#games = new Games(world, this.#ingests, principals(dice));
  }

  async run(): Promise<Outcome> {
    const { world, dice } = { world: this.#world, dice: this.#dice };
    const longer = this.#isErasing || this.#isRestoring ? 2 : 1;
    for (const game of named('game', 2)) this.#games.play(game, longer * dice.between(3, 8));
    for (const _ of this.#isErasing ? named('erasure', 3) : [])
      world.in(dice.between(500, 5_000), world.outside, 'nemesis', () => this.#erase());
    if (this.#isRestoring) world.in(dice.between(500, 3_000), world.outside, 'nemesis', () => this.#backUp());
    const nemesis = dice.chance(0.95) ? this.#nemesis() : () => {};
    await world.play(2 * MINUTE_MS, () => this.#games.areOver);
    nemesis();
    this.#calm();
    // Waits until stopped processes continue.
    await world.play(Math.max(...this.#services.map((service) => service.process.stoppedUntilMs)));
    await this.#delivered(LOOK_MS);
    // Closes every report, including reports that were filed while the clocks were ahead.
    world.moveClocks(5 * HOUR_MS);
    const quietMs = this.#clusterFaults === undefined ? QUIET_MS : QUIET_ON_CLUSTER_MS;
    await this.#delivered(this.#isCut ? QUIET_AFTER_CUTS_MS : quietMs);
    const tables = this.#tables;
    const findings =
      world.findings.length > 0
        ? world.findings
        : verdictOn({ games: this.#games, log: this.#log, tables, directory: this.#erasures.directory });
    return {
      findings: [...findings],
      acknowledged: this.#games.events.filter(({ told }) => told.length > 0).length,
      faults: this.#faults,
      nodeFaults: this.#clusterFaults?.count ?? 0,
      clusters: this.#clusterFaults === undefined ? 0 : 1,
      links: this.#log
        .partitionsOf(TOPICS.linkedEvents)
        .reduce((sum, { records }) => sum + records.length, 0),
      steps: world.steps,
    };
  }

  /** Injects the faults that the seed chooses, at random times. @returns a function that ends them */
  #nemesis(): () => void {
    const { world, dice } = { world: this.#world, dice: this.#dice };
    const isCutting = this.#isErasing || this.#isRestoring || this.#isLateAfterCuts || dice.chance(0.4);
    const cuts = isCutting ? this.#cuts() : [];
    const deeds = [...this.#deeds(), ...cuts].filter(() => dice.chance(0.5));
    this.#games.loss = dice.from([0, 0.05, 0.2]);
    const some = (): number => dice.from([0, 0, 0.01, 0.05]);
    const troubles: Troubles = {
      refused: some(),
      unanswered: some(),
      late: this.#isLateAfterCuts ? 0.05 : cuts.length === 0 ? some() : 0,
      slow: some(),
      burnt: some(),
    };
    let isOver = false;
    const strike = (): void => {
      if (isOver) return;
      world.troubles = dice.chance(0.7) ? troubles : NO_TROUBLES;
      if (deeds.length > 0) {
        this.#faults++;
        dice.oneOf(deeds);
      }
      world.in(dice.between(50, 2_000), world.outside, 'nemesis', strike);
    };
    strike();
    return () => {
      isOver = true;
    };
  }

  #deeds(): (readonly [number, () => unknown])[] {
    const dice = this.#dice;
    const log = this.#log;
    const someService = () => dice.from(this.#services);
    const someGroup = () => dice.maybe([...log.groups.values()]);
    const moveClocks = [1, () => this.#moveClocks(dice.between(-600_000, 600_000))] as const;
    const merge = [1, () => this.#tables.merge(dice.from(MERGED))] as const;
    // A new owner of a partition does not know the failed inserts of the previous owner (decision 0020).
    const ofNodes = this.#clusterFaults?.deeds(this.#isLateAfterCuts) ?? [];
    if (this.#isLateAfterCuts) return [moveClocks, merge, ...ofNodes];
    return [
      ...ofNodes,
      [4, () => someService().kill()],
      [2, () => this.#stop(someService())],
      [2, () => someGroup()?.rebalance()],
      moveClocks,
      [1, () => someGroup()?.forgetCommits()],
      merge,
    ];
  }

  #cuts(): (readonly [number, () => unknown])[] {
    return [TOPICS.events, TOPICS.sessions, TOPICS.reportLinks].map(
      (topic) => [1, () => this.#cut(topic)] as const,
    );
  }

  /** Stops a process. If the stop is longer than its session, the process loses its partitions and learns about it later. */
  #stop({ process, name }: Service): void {
    const { world, dice } = { world: this.#world, dice: this.#dice };
    const forMs = dice.between(100, 2 * SESSION_MS);
    world.note(`${name} is stopped for ${forMs}`);
    process.stoppedUntilMs = world.nowMs + forMs;
    if (forMs < SESSION_MS) return;
    world.in(SESSION_MS, world.outside, `${name} is not heard of`, () => {
      for (const group of this.#log.groups.values()) group.expel(process);
    });
  }

  /** Moves the clocks by less than the grace period of a report, because later events would count as late. */
  #moveClocks(byMs: number): void {
    const aheadMs = Math.max(-MOST_ASKEW_MS, Math.min(MOST_ASKEW_MS, this.#aheadMs + byMs));
    this.#world.moveClocks(aheadMs - this.#aheadMs);
    this.#aheadMs = aheadMs;
  }

  /** Erases a session, and truncates a topic during the erasure. */
  #erase(): void {
    const { world, dice } = { world: this.#world, dice: this.#dice };
    const session = this.#games.someSession(dice);
    if (session === undefined) return;
    this.#games.mayForget = true;
    this.#erasures.erase(session.principal, session.id);
    const topic = dice.from([TOPICS.events, TOPICS.sessions, TOPICS.reportLinks, TOPICS.reportLinks]);
    world.in(dice.between(0, 1_000), world.outside, 'nemesis', () => this.#cut(topic));
  }

  /**
   * Restores a backup of ClickHouse, and truncates a topic at about the same time. For half of the seeds, the restore follows the
   * truncation immediately, while the projector repairs the tables. All processes are stopped during the restore, as in the
   * runbook `clickhouse-lost.md`.
   */
  #backUp(): void {
    const { world, dice } = { world: this.#world, dice: this.#dice };
    const restore = this.#tables.backup();
    const topic = dice.from([TOPICS.events, TOPICS.sessions, TOPICS.reportLinks]);
    const [restoreMs, cutMs] = [dice.between(500, 3_000), dice.between(500, 3_000)];
    const isDuringRepair = world.seed % 16 === 9;
    world.in(
      isDuringRepair ? cutMs + restoreMs / 10 : restoreMs,
      world.outside,
      'ClickHouse is restored',
      () => {
        this.#killAll();
        restore();
      },
    );
    world.in(cutMs, world.outside, 'nemesis', () => this.#cut(topic));
  }

  #killAll(): void {
    for (const service of this.#services) service.kill();
  }

  #cut(topic: string): void {
    const partition = this.#dice.from(this.#log.partitionsOf(topic));
    if (partition.endOffset === 0) return;
    const offset = Math.max(0, partition.endOffset - this.#dice.between(1, 4));
    this.#world.note(`${topic}/${partition.number} is cut at ${offset} of ${partition.endOffset}`);
    if (topic !== TOPICS.events) this.#games.mayForget = true;
    this.#isCut = true;
    partition.cut(offset);
  }

  #calm(): void {
    const { world } = { world: this.#world };
    world.troubles = NO_TROUBLES;
    this.#games.loss = 0;
    for (const ingest of this.#ingests) ingest.retire();
    this.#clusterFaults?.end();
    world.note('all is well');
  }

  async #delivered(quietMs: number): Promise<void> {
    const [world, tables] = [this.#world, this.#tables];
    // A node that was replaced near the end of the faults still fetches parts.
    const differences = () => (tables instanceof SimulatedCluster ? tables.differences() : []);
    const undelivered = () => [...this.#lags(), ...differences()];
    const deadlineMs = world.nowMs + DELIVERED_WITHIN_MS;
    let [ends, sinceMs] = ['', world.nowMs];
    while (world.nowMs < deadlineMs) {
      if (world.findings.length > 0) return;
      await world.play(world.nowMs + LOOK_MS);
      const now = this.#ends();
      if (now !== ends || undelivered().length > 0 || this.#erasures.running > 0)
        [ends, sinceMs] = [now, world.nowMs];
      if (world.nowMs - sinceMs >= quietMs) return;
    }
    world.findings.push(
      `not delivered within ${DELIVERED_WITHIN_MS / 1000} s: ${undelivered().join(', ') || 'no rest'}`,
    );
  }

  #ends(): string {
    return Object.values(TOPICS)
      .flatMap((topic) =>
        this.#log.partitionsOf(topic).map(({ endOffset, cuts }) => `${endOffset}/${cuts.length}`),
      )
      .join(' ');
  }

  #lags(consumed: readonly (readonly [string, string])[] = CONSUMED): string[] {
    const unowned = [...this.#log.groups].flatMap(([name, group]) =>
      group.isOwned ? [] : [`${name} is unowned`],
    );
    const behind = consumed.flatMap(([group, topic]) =>
      this.#log.partitionsOf(topic).flatMap(({ number, endOffset }) => {
        const offset = this.#log.groups.get(group)?.committed(topic, number)?.offset;
        return (offset ?? 0) < endOffset
          ? [`${group} is at ${offset} of ${topic}/${number}, which ends at ${endOffset}`]
          : [];
      }),
    );
    return [...unowned, ...behind, ...unpublished(this.#log, this.#tables)];
  }
}

const PROJECTED = [
  [GROUPS.projectEvents, TOPICS.events],
  [GROUPS.projectSessions, TOPICS.sessions],
  [GROUPS.projectReports, TOPICS.reportLinks],
  [GROUPS.projectLinks, TOPICS.linkedEvents],
] as const;

const CONSUMED = [...PROJECTED, [GROUPS.link, TOPICS.events], [GROUPS.link, TOPICS.reportLinks]] as const;

/** Tables that are merged. `events` is excluded, because a merge would hide duplicates. */
const MERGED = [
  'sessions',
  'report_versions',
  'report_link_versions',
  'quota_usage_by_partition',
  'event_counts_by_partition',
];

function named(kind: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${kind}-${i + 1}`);
}

function principals(dice: Dice): Principal[] {
  return Array.from({ length: 2 }, () => {
    const quota = dice.from([null, 12]);
    const tenant = {
      id: dice.uuid(),
      name: 'a tenant',
      monthlySoftQuota: quota,
      spread: dice.from([1, 3]),
      createdAt: 0,
    };
    const revision = dice.from(['A', 'B'] as const);
    const project = { id: dice.uuid(), tenantId: tenant.id, name: 'a game', revision, createdAt: 0 };
    return { tenant, project, revision, scopes: [], tokenId: dice.uuid() };
  });
}

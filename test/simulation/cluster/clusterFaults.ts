/** Faults of the nodes of a simulated cluster, and the end of all faults. */
import type { World } from '../world/world.ts';
import type { ClusterNode } from './clusterNode.ts';
import { pairOf, type SimulatedCluster } from './simulatedCluster.ts';

const LONGEST_PAUSE_MS = 60_000;
const LONGEST_OUTAGE_MS = 20_000;
/** Time limit for the removal of dropped parts, during which a node that returns cannot write. */
const LONGEST_RETURN_MS = 2_000;
/** Outage after which Keeper has ended the session of a node. */
const SESSION_MS = 6_000;

type Deed = readonly [weight: number, run: () => unknown];

export class ClusterFaults {
  readonly #world: World;
  readonly #cluster: SimulatedCluster;
  /** Restarts Questlog after the replacement of a node, like the runbook. */
  readonly #restartQuestlog: () => void;
  #lost: ClusterNode | undefined;
  /** Number of faults until now. */
  count = 0;

  constructor(world: World, cluster: SimulatedCluster, restartQuestlog: () => void) {
    this.#world = world;
    this.#cluster = cluster;
    this.#restartQuestlog = restartQuestlog;
  }

  /** @param keepsOwners true if no fault may restart Questlog */
  deeds(keepsOwners: boolean): Deed[] {
    const { dice } = this.#world;
    const someNode = () => dice.from(this.#cluster.nodes);
    return [
      [2, () => this.#kill(someNode())],
      [2, () => this.#pause(someNode())],
      [2, () => this.#lag(someNode())],
      [1, () => this.#cut(someNode(), someNode())],
      [1, () => this.#stopKeeper()],
      ...(keepsOwners ? [] : [[1, () => this.#lose(this.#cluster.onlyHolder() ?? someNode())] as const]),
    ];
  }

  /** Ends all faults. */
  end(): void {
    this.#cluster.cuts.clear();
    this.#cluster.isKeeperDown = false;
    for (const node of this.#cluster.nodes) {
      node.resume();
      node.lagsUntilMs = 0;
      if (node.state === 'killed') this.#start(node);
    }
    if (this.#lost?.state === 'lost') this.#replace(this.#lost);
    for (const node of this.#cluster.nodes) this.#cluster.removeDropped(node);
  }

  #kill(node: ClusterNode): void {
    if (node.state !== 'running') return;
    const forMs = this.#between(100, LONGEST_OUTAGE_MS);
    this.#note(`${node.url} is killed for ${forMs}`);
    node.state = 'killed';
    node.kill();
    this.#in(forMs, () => {
      if (node.state === 'killed') this.#start(node);
    });
  }

  #start(node: ClusterNode): void {
    node.state = 'running';
    this.#return(node);
  }

  /** A node that has a new session of Keeper first removes the parts that Keeper dropped. */
  #return(node: ClusterNode): void {
    const forMs = this.#between(0, LONGEST_RETURN_MS);
    node.readOnlyUntilMs = this.#world.nowMs + forMs;
    this.#in(forMs, () => {
      if (node.state === 'running') this.#cluster.removeDropped(node);
    });
  }

  #pause(node: ClusterNode): void {
    const forMs = this.#between(100, LONGEST_PAUSE_MS);
    if (!node.answers(this.#world.nowMs)) return;
    this.#note(`${node.url} is paused for ${forMs}`);
    node.pause(this.#world.nowMs, forMs);
    this.#in(forMs, () => {
      if (node.answers(this.#world.nowMs)) node.resume();
      if (forMs > SESSION_MS && node.answers(this.#world.nowMs)) this.#return(node);
      this.#cluster.changed();
    });
  }

  /** Lags longer than the time limits of an insert and of a deciding read together. */
  #lag(node: ClusterNode): void {
    const forMs = this.#between(100, LONGEST_PAUSE_MS);
    this.#note(`${node.url} fetches nothing for ${forMs}`);
    node.lagsUntilMs = this.#world.nowMs + forMs;
  }

  #cut(a: ClusterNode, b: ClusterNode): void {
    if (a === b) return;
    const pair = pairOf(a, b);
    const forMs = this.#between(100, LONGEST_OUTAGE_MS);
    this.#note(`${pair} cannot reach each other for ${forMs}`);
    this.#cluster.cuts.add(pair);
    this.#in(forMs, () => this.#cluster.cuts.delete(pair));
  }

  #stopKeeper(): void {
    const forMs = this.#between(100, LONGEST_OUTAGE_MS);
    this.#note(`Keeper is stopped for ${forMs}`);
    this.#cluster.isKeeperDown = true;
    this.#in(forMs, () => {
      this.#cluster.isKeeperDown = false;
      this.#cluster.changed();
    });
  }

  /** Loses the disk of a node, unless the replacement of another lost node does not have all rows yet. */
  #lose(node: ClusterNode): void {
    if (
      this.#lost !== undefined &&
      !(this.#lost.state === 'running' && this.#cluster.hasAllParts(this.#lost))
    )
      return;
    this.#note(`${node.url} is lost`);
    this.#lost = node;
    node.state = 'lost';
    node.disks++;
    node.kill();
    this.#cluster.lose(node);
    this.#in(this.#between(2_000, LONGEST_OUTAGE_MS), () => {
      if (node.state === 'lost') this.#replace(node);
    });
  }

  #replace(node: ClusterNode): void {
    this.#world.note(`${node.url} is replaced`);
    this.#cluster.dropLostParts();
    node.state = 'running';
    // A new replica needs time to fetch all parts.
    node.lagsUntilMs = this.#world.nowMs + this.#between(0, LONGEST_OUTAGE_MS);
    this.#cluster.announceAllTo(node);
    this.#restartQuestlog();
  }

  #note(fault: string): void {
    this.count++;
    this.#world.note(fault);
  }

  #between(leastMs: number, mostMs: number): number {
    return this.#world.dice.between(leastMs, mostMs);
  }

  #in(delayMs: number, run: () => void): void {
    this.#world.in(delayMs, this.#world.outside, 'cluster', run);
  }
}

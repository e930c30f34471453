/**
 * Erases sessions while the services run. The steps and the SQL conditions are those of `runErasures`. A process that never dies
 * runs the steps, because the simulated ClickHouse does not know the system tables of the real code.
 */
import { EARLY_TABLES, ERASED_TABLES, scopesOf } from '@questlog/operations/erasures/core/scope';
import { type Directory, emptyDirectory, type Principal } from '@questlog/runtime/directory/directory';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { StoredTables } from '../clickhouse/tables.ts';
import type { SimulatedLog } from '../world/simulatedLog.ts';
import { LATEST_MS, type World } from '../world/world.ts';
import { lostOf, messagesOf } from './verdict.ts';

const LOOK_MS = 200;

export class Erasures {
  readonly directory: Directory = emptyDirectory();
  running = 0;
  readonly #world: World;
  readonly #tables: StoredTables;
  readonly #isProjected: () => boolean;

  /** @param isProjected true if the projector has read every topic to its end */
  constructor(world: World, tables: StoredTables, isProjected: () => boolean) {
    this.#world = world;
    this.#tables = tables;
    this.#isProjected = isProjected;
  }

  erase({ tenant, project }: Principal, sessionId: string): void {
    const { dice, clock } = this.#world;
    const { id: projectId } = project;
    this.directory.projects.set(projectId, project);
    const erasure = anErasure({
      ...{ id: dice.uuid(), tenantId: tenant.id, projectId, sessionId, state: 'running' },
      ...{ sessions: [{ projectId, ids: [sessionId] }], requestedAt: clock.now() },
    });
    this.#world.note(`session ${sessionId} is erased`);
    this.directory.erased.add(erasure);
    this.running++;
    this.#hide(erasure);
  }

  #hide(erasure: Erasure): void {
    const found = this.#deleteRows(erasure, EARLY_TABLES);
    this.#whenProjected(() => {
      const later = this.#deleteRows(found, EARLY_TABLES);
      this.#whenProjected(() => this.#drop(this.#deleteRows(later, ERASED_TABLES)));
    });
  }

  /** Looks for rows of late inserts. */
  #drop(erasure: Erasure): void {
    this.directory.erased.add({ ...erasure, hiddenAt: this.#world.clock.now() });
    this.#in(LATEST_MS, () => {
      const rows = scopesOf(erasure).flatMap((scope) =>
        ERASED_TABLES.flatMap((table) =>
          this.#tables.query(`SELECT tenant_id FROM ${table} WHERE ${scope[table]}`),
        ),
      );
      if (rows.length === 0) {
        this.directory.erased.add({ ...erasure, state: 'done', hiddenAt: this.#world.clock.now() });
        this.running--;
        return;
      }
      this.directory.erased.add(erasure);
      this.#hide(erasure);
    });
  }

  /** Records the reports of the session, and then deletes rows. */
  #deleteRows(erasure: Erasure, tables: readonly (typeof ERASED_TABLES)[number][]): Erasure {
    const [projectId = '', ids] = [erasure.projectId ?? '', new Set(erasure.reports.flatMap((of) => of.ids))];
    for (const scope of scopesOf(erasure)) {
      for (const { id } of this.#tables.query(
        `SELECT id FROM report_versions WHERE ${scope.report_versions}`,
      ))
        ids.add(String(id));
    }
    const found = { ...erasure, reports: [{ projectId, ids: [...ids] }] };
    this.directory.erased.add(found);
    for (const scope of scopesOf(erasure))
      for (const table of tables) this.#tables.command(`ALTER TABLE ${table} DELETE WHERE ${scope[table]}`);
    return found;
  }

  #whenProjected(run: () => void): void {
    if (this.#isProjected()) run();
    else this.#in(LOOK_MS, () => this.#whenProjected(run));
  }

  #in(delayMs: number, run: () => void): void {
    this.#world.in(delayMs, this.#world.outside, 'erasure', run);
  }
}

/** Returns a sentence for each row with erased data. */
export function erasureFindings({ erased }: Directory, log: SimulatedLog, tables: StoredTables): string[] {
  const records = [
    ...messagesOf(log, TOPICS.events, eventsAccepted).flat(),
    ...lostOf(log, TOPICS.events, eventsAccepted),
  ];
  const gone = new Set(
    records.flatMap(({ tenantId, projectId, events }) =>
      events
        .filter(({ sessionId }) => sessionId !== null && erased.hasSession(tenantId, projectId, sessionId))
        .map(({ id }) => id),
    ),
  );
  const isGone = (row: Readonly<Record<string, unknown>>): boolean => {
    const [tenantId, projectId] = [String(row['tenantId']), String(row['projectId'])];
    return (
      gone.has(String(row['eventId'])) ||
      erased.hasSession(tenantId, projectId, String(row['sessionId'])) ||
      erased.hasReport(tenantId, projectId, String(row['reportId']))
    );
  };
  const owner = 'tenant_id AS tenantId, project_id AS projectId';
  return [
    `SELECT ${owner}, session_id AS sessionId, id AS eventId FROM events`,
    `SELECT ${owner}, id AS sessionId FROM sessions`,
    `SELECT ${owner}, session_id AS sessionId, id AS reportId FROM report_versions`,
    `SELECT ${owner}, report_id AS reportId, event_id AS eventId FROM report_link_versions WHERE state IN ('linked', 'retracted')`,
  ].flatMap((sql) =>
    tables
      .query(sql)
      .filter(isGone)
      .map((row) => `erased data is visible: ${JSON.stringify(row)}`),
  );
}

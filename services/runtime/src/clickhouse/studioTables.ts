/**
 * Rules of the accounts that read only the rows of one studio (tenant) or of one of its projects. Every table and view of the
 * database has a rule. A new table without a rule is not readable by these accounts, and fails a test.
 */

/**
 * `project`: each row belongs to a tenant and a project. `tenant`: each row belongs to a tenant only, so the account of one
 * project reads no rows. `view`: the view runs with the account's permissions, so its tables decide which rows the account
 * reads. `hidden`: accounts of studios cannot read the table, because it is for operators or for internal use.
 */
type StudioRule = 'project' | 'tenant' | 'view' | 'hidden';

export const STUDIO_RULES: Readonly<Record<string, StudioRule>> = {
  ...{ events: 'project', sessions: 'project', event_counts_by_partition: 'project' },
  ...{ report_versions: 'project', report_link_versions: 'project', reject_counts: 'project' },
  quota_usage_by_partition: 'tenant',
  ...{ builds: 'view', players: 'view', game_events: 'view', game_sessions: 'view' },
  ...{ event_counts_by_minute: 'view', events_with_reports: 'view', quota_usage: 'view', rejects: 'view' },
  ...{ reports: 'view', report_groups: 'view', report_links: 'view' },
  ...{ appends: 'hidden', erased_events: 'hidden', expired_sessions: 'hidden', retention_marks: 'hidden' },
  ...{ audit: 'hidden', audit_versions: 'hidden', truncations: 'hidden', schema_migrations: 'hidden' },
  ...{ ledger: 'hidden', received_by_process: 'hidden', left_out_by_partition: 'hidden' },
  ...{ projected_offsets: 'hidden', projected_offset_versions: 'hidden' },
};

export const STUDIO_TABLES: readonly string[] = Object.keys(STUDIO_RULES).filter(
  (name) => STUDIO_RULES[name] !== 'hidden',
);

/** Account that reads only the rows of one tenant or, if `projectId` is set, of one project. */
export interface StudioReader {
  readonly username: string;
  /** SHA-256 of the password in hexadecimal digits. */
  readonly sha256: string;
  readonly tenantId: string;
  readonly projectId: string | null;
  /** Time of expiry in milliseconds since the epoch. Null if the account never expires. */
  readonly expiresAt: number | null;
}

/** Accounts of studios in ClickHouse. */
export interface StudioAccounts {
  readonly url: string;
  readonly database: string;
  /**
   * Returns the reason why ClickHouse cannot have accounts. Undefined if ClickHouse can have accounts.
   * @throws Unavailable if no node answers
   */
  refusal(): Promise<string | undefined>;
  /**
   * Replaces all accounts. Resolves when the accounts are valid, in a cluster on every node that answers.
   * @param caughtUp resolves after `set` was called with all changes that any process has made before the call of `caughtUp`
   * @throws Unavailable if no node has the accounts
   */
  set(accounts: readonly StudioReader[], caughtUp: () => Promise<void>): Promise<void>;
  /** Returns the nodes that lack the accounts, with the reasons. Undefined if all nodes have the accounts. */
  warning(): string | undefined;
}

/** Types of the objects that the modules of the operations service share. */
import type { AddressedStore } from '@questlog/runtime/clickhouse/store';
import type { StudioAccounts } from '@questlog/runtime/clickhouse/studioTables';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Projections } from '@questlog/runtime/log/projection/projection';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import type { OperationsMetrics } from './metrics.ts';

/** Objects that the modules of operations share. A module that needs only some of the objects declares them with `Pick`. */
export interface OperationsContext extends ServiceDeps {
  /** Read-only ClickHouse account for SQL queries of operators. Undefined if no read-only account is configured. */
  readonly reader: AddressedStore | undefined;
  readonly studioAccounts: StudioAccounts;
  readonly uploads: UploadStore | undefined;
  readonly directory: DirectoryHandle;
  readonly projections: Projections;
  readonly metrics: OperationsMetrics;
  readonly lifecycle: Lifecycle;
  readonly adminToken: string;
}

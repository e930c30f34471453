/** Changes the accounts of ClickHouse that read the rows of one tenant or project. Informs ClickHouse after each change. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { StudioAccounts } from '@questlog/runtime/clickhouse/studioTables';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { problem, rejectionOf } from '@questlog/runtime/http/core/fieldProblems';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { ReaderInput, ReaderOutput } from '@questlog/schemas/http/admin';
import type { Reader } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { expiryOf, formatMillis } from './rotateToken.ts';

const PASSWORD_BYTES = 32;

/**
 * Makes ClickHouse accept the accounts of the directory, now and after every change of the accounts by any process. A start does not
 * fail if ClickHouse does not answer. Returns a function that makes ClickHouse accept the accounts again.
 */
export async function openReaders(
  { current, onReaders, caughtUp }: Pick<DirectoryHandle, 'current' | 'onReaders' | 'caughtUp'>,
  accounts: StudioAccounts,
): Promise<() => Promise<void>> {
  const apply = async () => {
    const studios = [...current.readers.values()].map((reader) => ({
      ...reader,
      username: usernameOf(reader),
    }));
    await accounts.set(studios, caughtUp);
  };
  const applyIfAvailable = () =>
    apply().catch((error: unknown) => {
      if (!(error instanceof Unavailable)) throw error;
    });
  onReaders(() => void applyIfAvailable());
  await applyIfAvailable();
  return apply;
}

export interface ReaderDeps {
  readonly directory: DirectoryHandle;
  readonly clock: Clock;
  readonly studioAccounts: StudioAccounts;
  /** Makes ClickHouse accept the accounts of the directory. */
  readonly applyReaders: () => Promise<void>;
}

export function readerOperations({ directory, clock, studioAccounts, applyReaders }: ReaderDeps) {
  const { current, change } = directory;
  const created = async (reader: Reader, password: string) => {
    await applyReaders();
    const { url, database } = studioAccounts;
    return { status: 201, body: { ...readerOutput(reader), password, url, database } };
  };
  return {
    readers: () => [...current.readers.values()].map(readerOutput),
    createReader: async (input: ReaderInput) => {
      await requireAccounts(studioAccounts);
      const [id, password] = [randomUUID(), newPassword()];
      const reader = await change('reader', id, () => {
        const entity: Reader = {
          ...{ id, ...scopeOf(directory, input), name: input.name ?? '', sha256: sha256Hex(password) },
          expiresAt: input.expiresAt == null ? null : expiryOf(input.expiresAt, clock.now()),
          createdAt: clock.now(),
        };
        return { entity, answer: entity };
      });
      return await created(reader, password);
    },
    rotateReader: async (idText: string) => {
      await requireAccounts(studioAccounts);
      const password = newPassword();
      const reader = await change('reader', canonicalUuid(idText) ?? '', (known) => {
        const old = existing(idText, known);
        if (old.expiresAt !== null && old.expiresAt <= clock.now())
          throw new Rejected('not_found', `the reader ${idText} has expired; create a new reader`);
        const entity = { ...old, sha256: sha256Hex(password) };
        return { entity, answer: entity };
      });
      return await created(reader, password);
    },
    dropReader: async (idText: string) => {
      await change('reader', canonicalUuid(idText) ?? '', (known) => {
        existing(idText, known);
        return { entity: null, answer: undefined };
      });
      await applyReaders();
    },
  };
}

/** Returns the tenant and the project. @throws Rejected if they are unknown, or if the project belongs to another tenant */
function scopeOf(
  { current: { tenants, projects } }: DirectoryHandle,
  input: ReaderInput,
): Pick<Reader, 'tenantId' | 'projectId'> {
  const [tenantId = '', projectId = null] = [input.tenantId, input.projectId].map((id) =>
    canonicalUuid(id ?? ''),
  );
  if (!tenants.has(tenantId)) throw new Rejected('not_found', `there is no tenant ${input.tenantId}`);
  if (projectId === null) return { tenantId, projectId };
  const project = projects.get(projectId);
  if (project === undefined) throw new Rejected('not_found', `there is no project ${projectId}`);
  if (project.tenantId === tenantId) return { tenantId, projectId };
  throw rejectionOf(problem('/projectId', 'field_invalid', 'the project belongs to another tenant'));
}

async function requireAccounts(accounts: StudioAccounts): Promise<void> {
  const refusal = await accounts.refusal();
  if (refusal !== undefined) throw new Rejected('readers_not_here', refusal);
}

function existing(id: string, reader: Reader | undefined): Reader {
  if (reader === undefined) throw new Rejected('not_found', `there is no reader ${id}`);
  return reader;
}

function newPassword(): string {
  return randomBytes(PASSWORD_BYTES).toString('base64url');
}

function usernameOf({ id }: Reader): string {
  return `reader-${id}`;
}

function readerOutput(reader: Reader): ReaderOutput {
  const { id, tenantId, projectId, name, expiresAt, createdAt } = reader;
  return {
    ...{ id, username: usernameOf(reader), tenantId, projectId, name },
    expiresAt: expiresAt === null ? null : formatMillis(expiresAt),
    createdAt: formatMillis(createdAt),
  };
}

/** Settings of the service `operations`. */
import { type SettingsOf, setting } from '@questlog/runtime/process/config';
import { DEFAULT_MAX_ERASED_IDS } from '@questlog/schemas/erased';

export const operationsSettings = {
  adminAllowedHosts: setting.optional({
    env: 'QUESTLOG_ADMIN_ALLOWED_HOSTS',
    description:
      'Additional host names of the listener for operators, separated by commas. A request with another `Host` is rejected, except for health checks and metrics.',
  }),
  adminToken: setting.secret({
    env: 'QUESTLOG_ADMIN_TOKEN',
    description:
      'Bearer token of operators, at least 16 characters. The service `operations` requires this token, and `standalone` creates a token.',
  }),
  erasedIds: setting.integer({
    env: 'QUESTLOG_ERASED_IDS',
    default: DEFAULT_MAX_ERASED_IDS,
    minimum: 0,
    maximum: 10_000_000,
    description:
      'Maximum number of sessions and reports that can ever be erased by id. Every process keeps the erased ids in memory, about 100 bytes each.',
  }),
} as const;

/**
 * `allowedHosts` are further host names for the `Host` header. Loopback names are always allowed. `maxErasedIds` limits the
 * number of erased sessions and reports, because the process keeps all of their ids in memory.
 */
export type OperationsOptions = ReturnType<typeof operationsOptions>;

export function operationsOptions(settings: SettingsOf<typeof operationsSettings>) {
  const { adminAllowedHosts, erasedIds: maxErasedIds } = settings;
  return { allowedHosts: adminAllowedHosts.split(',').map((name) => name.trim()), maxErasedIds };
}

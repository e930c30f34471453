/** Names of the services. They are separate from the settings, so that `questlog --help` loads nothing else. */
export const SERVICES = ['standalone', 'ingest', 'linker', 'projector'] as const;
export type ServiceName = (typeof SERVICES)[number];

export function hasIngest(service: ServiceName): boolean {
  return service === 'standalone' || service === 'ingest';
}

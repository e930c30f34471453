/** Names of the services. This file does not import the settings, so that `questlog --help` starts fast. */
export const SERVICES = ['standalone', 'ingest', 'linker', 'projector'] as const;
export type ServiceName = (typeof SERVICES)[number];

export function hasIngest(service: ServiceName): boolean {
  return service === 'standalone' || service === 'ingest';
}

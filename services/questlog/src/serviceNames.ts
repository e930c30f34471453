/** Names of the services. This file does not import the settings, so that `questlog --help` starts fast. */
export const SERVICES = ['standalone', 'ingest', 'operations', 'linker', 'projector'] as const;
export type ServiceName = (typeof SERVICES)[number];

/** Returns the names of the services that a process runs. */
export function servicesOf(process: ServiceName): readonly ServiceName[] {
  return process === 'standalone' ? SERVICES.filter((name) => name !== 'standalone') : [process];
}

/** True if the process runs the service, alone or together with all other services. */
export function runs(process: ServiceName, service: Exclude<ServiceName, 'standalone'>): boolean {
  return process === 'standalone' || process === service;
}

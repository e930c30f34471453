/** Settings of an external schema registry. */
import { rejectIf, type SettingsOf, setting } from '../process/config.ts';

export const registrySettings = {
  registryUrl: setting.optional({
    env: 'SCHEMA_REGISTRY_URL',
    description: 'Address of a registry with Confluent’s API. Required with Kafka.',
  }),
  registryUsername: setting.optional({
    env: 'SCHEMA_REGISTRY_USERNAME',
    description: 'User for basic authentication, which overrides the user in the address.',
  }),
  registryPassword: setting.secret({
    env: 'SCHEMA_REGISTRY_PASSWORD',
    description: 'Password for basic authentication, which overrides the password in the address.',
  }),
  registryTlsCa: setting.optional({
    env: 'SCHEMA_REGISTRY_TLS_CA',
    description: 'Certificate authorities of the registry’s certificate, in PEM.',
  }),
} as const;

/** @throws StartRefused if the address of the registry is not set */
export function registryOptions(settings: SettingsOf<typeof registrySettings>) {
  const { registryUrl: url, registryUsername: username, registryPassword: password } = settings;
  rejectIf(url === '', 'SCHEMA_REGISTRY_URL: required with the log on Kafka');
  return { url, username, password, caPem: settings.registryTlsCa };
}

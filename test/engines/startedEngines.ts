/** Engines that a provider has started or that the environment names. */
import type { S3Server } from '@questlog/runtime/log/kafka/testing/engines';
import type { Environment, Part } from './choice.ts';

export interface StartedEngines {
  /** Addresses of the requested engines. */
  readonly addresses: Readonly<Partial<Record<Part, string>>>;
  readonly stackDir?: string;
  readonly s3?: S3Server;
  stop(): Promise<void>;
}

/** Returns the S3 server that the settings name. */
export function s3In(env: Environment): S3Server {
  return {
    endpoint: env['QUESTLOG_S3_ENDPOINT'] ?? '',
    accessKeyId: env['QUESTLOG_S3_ACCESS_KEY_ID'] ?? '',
    secretAccessKey: env['QUESTLOG_S3_SECRET_ACCESS_KEY'] ?? '',
  };
}

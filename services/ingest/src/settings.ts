/** Settings of ingest. */
import { checkSettings, type SettingsOf, setting } from '@questlog/runtime/process/config';
import { StartRefused } from '@questlog/runtime/process/errors';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import { DEFAULT_MAX_SESSION_LINKS } from '@questlog/schemas/topics/reportLinks';
import { allowedOrigins } from './http/cors.ts';
import { jwtOptions, jwtSettings } from './tokens/jwt/jwtSettings.ts';

export const ingestSettings = {
  port: setting.integer({
    env: 'QUESTLOG_PORT',
    default: 8080,
    minimum: 0,
    maximum: 65_535,
    description: 'Port for games; 0: any free port.',
  }),
  host: setting.text({
    env: 'QUESTLOG_HOST',
    default: '127.0.0.1',
    description: 'Address of the listener for games.',
  }),
  publicUrl: setting.optional({
    env: 'QUESTLOG_PUBLIC_URL',
    description:
      "Public address of the games' listener behind a proxy (`https://telemetry.example.com`), with which upload addresses begin. If empty, upload addresses begin with `http://` and the `Host` header of the request.",
  }),
  corsOrigins: setting.optional({
    env: 'QUESTLOG_CORS_ORIGINS',
    default: '*',
    description:
      'Origins of web pages that can use the listener for games, separated by commas (`https://game.example`); `*`: all origins, `off`: none.',
  }),
  docs: setting.choice(['on', 'off'], {
    env: 'QUESTLOG_DOCS',
    default: 'on',
    description: 'Serves the API documentation (`GET /docs`) on the listener for games, without a token.',
  }),
  revision: setting.choice(['A', 'B'], {
    env: 'QUESTLOG_REVISION',
    default: 'A',
    description: 'Revision of the contract for projects without a revision.',
  }),
  reportLinks: setting.integer({
    env: 'QUESTLOG_REPORT_LINKS',
    default: DEFAULT_MAX_SESSION_LINKS,
    minimum: 0,
    maximum: 1_000_000,
    description:
      'Maximum number of links of a report to events of its session. Events that the report names are linked in addition.',
  }),
  ...jwtSettings,
} as const;

export type IngestOptions = ReturnType<typeof ingestOptions>;

/** @throws StartRefused with the names of all invalid settings */
export function ingestOptions(settings: SettingsOf<typeof ingestSettings>) {
  const { host, port, docs, revision: defaultRevision, reportLinks: maxSessionLinks } = settings;
  const toGames: ListenAddress = { host, port, settings: { host: 'QUESTLOG_HOST', port: 'QUESTLOG_PORT' } };
  const checked = checkSettings({
    corsOrigins: () => allowedOrigins(settings.corsOrigins),
    /** Base URL of ingest for games, without a trailing slash. If it is empty, URLs contain the request's `Host` header. */
    publicUrl: () => checkedPublicUrl(settings.publicUrl),
    jwt: () => jwtOptions(settings),
  });
  return { ...checked, toGames, defaultRevision, maxSessionLinks, hasDocs: docs === 'on' };
}

function checkedPublicUrl(text: string): string {
  if (text === '') return '';
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWhole =
    url !== undefined && /^https?:$/.test(url.protocol) && url.search + url.hash + url.username === '';
  if (!isWhole)
    throw new StartRefused('QUESTLOG_PUBLIC_URL: must be an http or https address without user and query');
  return url.href.replace(/\/$/, '');
}

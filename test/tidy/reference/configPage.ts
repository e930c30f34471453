/** `docs/reference/config.md`: every setting, its default and its meaning. */
import { configTable } from '@questlog/runtime/process/config';
import { settings } from '@questlog/standalone/config';
import { page } from './markdown.ts';

export function configPage(): string {
  return page('Settings', 'services/standalone/src/config.ts', [
    'Settings are environment variables. A bad or unknown `QUESTLOG_*` variable stops the start, with all problems listed.\n`NAME_FILE` names a file that holds the value; set it or `NAME`, not both.',
    configTable(settings),
    '`npm start -- --check-config` prints the settings in use, and exits.',
  ]);
}

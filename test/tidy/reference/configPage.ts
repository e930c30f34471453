/** `docs/reference/config.md`: every setting, its default and its meaning. */

import { settings } from '@questlog/questlog/config';
import { configList } from '@questlog/runtime/process/config';
import { page } from './markdown.ts';

export function configPage(): string {
  return page('Settings', 'services/questlog/src/config.ts', [
    'Settings are environment variables, here with their defaults. A bad or unknown `QUESTLOG_*` variable stops the start, with\nall problems listed. `NAME_FILE` names a file that holds the value; set it or `NAME`, not both.\n`npm start -- --check-config` prints the settings in use, secrets as `***`, and exits.',
    configList(settings),
  ]);
}

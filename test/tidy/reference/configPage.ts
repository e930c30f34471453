/** `docs/reference/config.md`: every setting, its default and its meaning. */

import { settings } from '@questlog/questlog/config';
import { settingRows } from '@questlog/runtime/process/config';
import { code, page, table } from './markdown.ts';

export function configPage(): string {
  return page('Settings', 'services/questlog/src/config.ts', [
    'Settings are environment variables, listed with their defaults. An invalid or unknown `QUESTLOG_*` variable stops the start with a list of\nall problems. `NAME_FILE` names a file with the value; set it or `NAME`, not both. `npm start -- --check-config` prints the current\nsettings, with secrets as `***`, and exits.',
    table(
      ['setting', 'default', 'meaning'],
      settingRows(settings).map(([name, value, meaning]) => [code(name), code(value), meaning]),
    ),
  ]);
}

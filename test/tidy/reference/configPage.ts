/** `docs/reference/config.md`: every setting, its default and its meaning. */

import { settings } from '@questlog/questlog/config';
import { settingRows } from '@questlog/runtime/process/config';
import { code, entry, list, page } from './markdown.ts';

export function configPage(): string {
  return page('Settings', 'services/questlog/src/config.ts', [
    'Settings are environment variables. If a `QUESTLOG_*` variable is invalid or unknown, Questlog lists all problems and exits. Every setting\n`NAME` can also be read from a file: `NAME_FILE` is the path of the file. `npm start -- --check-config` prints the current settings, with\nsecrets as `***`, and exits.',
    'The value in parentheses is the default.',
    list(
      settingRows(settings).map(([name, value, meaning]) =>
        entry(`${code(name)}${value === '' ? '' : ` (${code(value)})`}`, meaning),
      ),
    ),
  ]);
}

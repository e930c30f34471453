/** The settings of the standalone process. */
import { setting } from '@questlog/runtime/process/config';
import Type from 'typebox';

export const defaultDataDir = '.data';

export const settings = Type.Object({
  port: setting.integer({
    env: 'QUESTLOG_PORT',
    default: 8080,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the listener for games; 0 takes any free one.',
  }),
  adminPort: setting.integer({
    env: 'QUESTLOG_ADMIN_PORT',
    default: 8081,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the listener for operators; never make it public.',
  }),
  host: setting.text({
    env: 'QUESTLOG_HOST',
    default: '127.0.0.1',
    description: 'Address that both listeners bind to.',
  }),
  dataDir: setting.text({
    env: 'QUESTLOG_DATA_DIR',
    default: defaultDataDir,
    description: 'Folder of the log, of ClickHouse and of the demo credentials; one process at a time.',
  }),
  revision: setting.choice(['A', 'B'], {
    env: 'QUESTLOG_REVISION',
    default: 'A',
    description: 'Revision of the contract for projects that do not name theirs.',
  }),
});

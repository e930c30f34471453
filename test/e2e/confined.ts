/** Runs a process like its container: a read-only disk except for one folder, a user other than root, and no capabilities. */
import { spawnSync } from 'node:child_process';

/**
 * Creates a mount namespace with one writable folder, then drops all privileges. The folder can be in `/dev/shm`, whose other
 * folders are then read-only.
 */
const CONFINE = `
  mount --make-rprivate / && mount --bind "$1" "$1" || exit 98
  findmnt --list --noheadings --output TARGET | grep -vE "^($1|/proc|/sys|/dev)(/|$)" |
    while read -r at; do mount -o remount,bind,ro "$at" || true; done
  if mountpoint -q /dev/shm; then mount -o remount,bind,ro /dev/shm; fi
  touch "$1/../written" 2>/dev/null && exit 99
  user="$2" && shift 2
  exec setpriv --reuid "$user" --regid "$user" --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`;

/** Returns the arguments of \`unshare\` that run the command. @param folder the only folder that the process can write to */
export function confined(folder: string, user: number, command: readonly string[]): string[] {
  return ['--mount', 'sh', '-c', CONFINE, 'sh', folder, String(user), ...command];
}

/** Returns the reason if this machine cannot confine a process. */
export function whyNotConfined(folder: string): string | undefined {
  const { status, stderr, error } = spawnSync('unshare', confined(folder, 1000, ['true']), {
    encoding: 'utf8',
  });
  return status === 0 ? undefined : stderr || error?.message || `exit code ${status}`;
}

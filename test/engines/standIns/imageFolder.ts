/** The root folder of an image, filled from this machine's own files, and Docker's image of it: one layer. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** What the scripts of the images use. */
const TOOLS = ['sh', 'env', 'sed', 'tr', 'cat', 'mkdir', 'sleep', 'ls', 'bash', 'wget'];

export class ImageFolder {
  readonly #root = mkdtempSync(join(tmpdir(), 'questlog-image-'));

  constructor() {
    for (const folder of ['tmp', 'proc', 'dev', 'sys', 'etc', 'bin']) this.makeFolder(`/${folder}`);
    this.write('/etc/passwd', 'root:x:0:0:root:/root:/bin/sh\n');
    this.write('/etc/group', 'root:x:0:\n');
    this.write('/etc/nsswitch.conf', 'hosts: files dns\n');
    for (const tool of TOOLS) this.addProgram(whereIs(tool), `/bin/${tool}`);
  }

  makeFolder(path: string): void {
    mkdirSync(join(this.#root, path), { recursive: true });
  }

  write(path: string, text: string): void {
    this.makeFolder(dirname(path));
    writeFileSync(join(this.#root, path), text);
  }

  /** A file or a folder; links are followed, and left out where they lead nowhere. */
  add(from: string, to: string): void {
    this.makeFolder(dirname(to));
    cpSync(from, join(this.#root, to), { recursive: true, dereference: true, filter: existsSync });
  }

  link(target: string, path: string): void {
    this.makeFolder(dirname(path));
    symlinkSync(target, join(this.#root, path));
  }

  addProgram(from: string, to: string): void {
    this.add(from, to);
    this.addLibrariesOf(from);
  }

  /** The shared libraries that a program or a library is linked to, where they lie here. */
  addLibrariesOf(path: string): void {
    for (const library of librariesOf(path)) {
      if (existsSync(join(this.#root, library))) continue;
      this.makeFolder(dirname(library));
      copyFileSync(library, join(this.#root, library));
    }
  }

  /**
   * Takes the place of an image of that name.
   *
   * @param changes instructions of a Dockerfile that set what a container of it begins with.
   */
  async importAs(image: string, changes: readonly string[]): Promise<void> {
    const before = execFileSync('docker', ['images', '--quiet', image], { encoding: 'utf8' }).trim();
    const tar = spawn('tar', ['-C', this.#root, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const options = changes.flatMap((change) => ['--change', change]);
    const docker = spawn('docker', ['import', ...options, '-', image], {
      stdio: [tar.stdout, 'ignore', 'inherit'],
    });
    const [[packed], [imported]] = await Promise.all([once(tar, 'exit'), once(docker, 'exit')]);
    if (packed !== 0 || imported !== 0) throw new Error(`${image} could not be imported`);
    // Refused while a container is of it.
    if (before !== '') spawnSync('docker', ['rmi', before]);
  }

  remove(): void {
    rmSync(this.#root, { recursive: true, force: true });
  }
}

/** The program behind a name. */
export function whereIs(name: string): string {
  return execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
}

/** Lines of ldd are `name => /path (0x…)`, or `/path (0x…)` for the loader. */
function librariesOf(path: string): string[] {
  const listed = execFileSync('ldd', [path], { encoding: 'utf8' });
  return [...listed.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].flatMap(([, library]) => library ?? []);
}

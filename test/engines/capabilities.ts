/** Detects the capabilities of this machine to start engines. */
import { spawnSync } from 'node:child_process';
import type { MachineCapabilities } from './choice.ts';
import { dockerClient, firstMissingImage } from './docker.ts';
import { hasJars } from './localEngines.ts';

/** Pulls missing images, because Docker cannot be used without them. */
export async function detectCapabilities(): Promise<MachineCapabilities> {
  const docker = await dockerClient();
  const missingImage = docker && (await firstMissingImage(docker));
  return {
    dockerAnswers: docker !== undefined,
    missingImage,
    isLinux: process.platform === 'linux',
    java: javaVersion(),
    hasMaven: spawnSync('mvn', ['-v']).status === 0,
    hasJars: hasJars(),
  };
}

function javaVersion(): number | undefined {
  const { stderr } = spawnSync('java', ['-version'], { encoding: 'utf8' });
  const version = /version "(?<major>\d+)/.exec(stderr ?? '')?.groups?.['major'];
  return version === undefined ? undefined : Number(version);
}

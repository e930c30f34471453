/** Finds out whether there is a Docker, and whether it has the tests' images. */
import { type ContainerRuntimeClient, getContainerRuntimeClient, ImageName } from 'testcontainers';
import { CLICKHOUSE_IMAGE, KAFKA_IMAGE, REGISTRY_IMAGE } from './images.ts';

/** Undefined where no Docker answers. */
export async function dockerClient(): Promise<ContainerRuntimeClient | undefined> {
  return getContainerRuntimeClient().catch(() => undefined);
}

/** The first image that is neither there nor can be pulled. */
export async function firstMissingImage({ image }: ContainerRuntimeClient): Promise<string | undefined> {
  for (const name of [KAFKA_IMAGE, REGISTRY_IMAGE, CLICKHOUSE_IMAGE]) {
    if (!(await isThere(image, name))) return name;
  }
  return undefined;
}

/** Pulls it if need be. */
export async function isThere(image: ContainerRuntimeClient['image'], name: string): Promise<boolean> {
  const imageName = ImageName.fromString(name);
  if (await image.exists(imageName)) return true;
  await image.pull(imageName).catch(() => undefined);
  return image.exists(imageName);
}

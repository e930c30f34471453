/** Detects Docker and the images of the tests. */
import { type ContainerRuntimeClient, getContainerRuntimeClient, ImageName } from 'testcontainers';
import { CLICKHOUSE_IMAGE, KAFKA_IMAGE, REGISTRY_IMAGE } from './images.ts';

/** Returns undefined if Docker does not answer. */
export async function dockerClient(): Promise<ContainerRuntimeClient | undefined> {
  return getContainerRuntimeClient().catch(() => undefined);
}

/** Returns the first image that Docker does not have and cannot pull. */
export async function firstMissingImage({ image }: ContainerRuntimeClient): Promise<string | undefined> {
  for (const name of [KAFKA_IMAGE, REGISTRY_IMAGE, CLICKHOUSE_IMAGE]) {
    if (!(await isThere(image, name))) return name;
  }
  return undefined;
}

/** Returns true if Docker has the image, or can pull it. */
export async function isThere(image: ContainerRuntimeClient['image'], name: string): Promise<boolean> {
  const imageName = ImageName.fromString(name);
  if (await image.exists(imageName)) return true;
  await image.pull(imageName).catch(() => undefined);
  return image.exists(imageName);
}

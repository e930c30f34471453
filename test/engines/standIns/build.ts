/**
 * Builds stand-ins for the images of the tests out of this machine's own files, under the same names: for a machine
 * whose Docker reaches no registry of images. They run the same Kafka and registry, from the jars of the local stack;
 * for ClickHouse it is the embedded engine.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CLICKHOUSE_IMAGE, KAFKA_IMAGE, REGISTRY_IMAGE } from '../images.ts';
import { hasJars, JARS, startLocalEngines } from '../localEngines.ts';
import { ImageFolder, whereIs } from './imageFolder.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// A stack fetches the jars when it starts.
if (!hasJars()) await (await startLocalEngines(['SCHEMA_REGISTRY_URL'])).stop();

await build(KAFKA_IMAGE, ['ENV PATH=/opt/java/bin:/bin', 'CMD ["/etc/kafka/docker/run"]'], (image) => {
  addJava(image);
  image.add(join(JARS, 'kafka'), '/opt/kafka/libs');
  image.add(join(ROOT, 'deploy/kafka-local/log4j2.xml'), '/opt/kafka/config/log4j2.xml');
  image.add(here('./kafkaRun.sh'), '/etc/kafka/docker/run');
});

const runner = readdirSync(join(JARS, 'registry')).find((name) => name.endsWith('-runner.jar'));
const registry = `CMD ["java", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=0.0.0.0", "-jar", "/deployments/${runner}"]`;
await build(REGISTRY_IMAGE, ['ENV PATH=/opt/java/bin:/bin', registry], (image) => {
  addJava(image);
  image.add(join(JARS, 'registry'), '/deployments');
});

const clickhouse = '/questlog/test/engines/standIns/clickhouse.ts';
const threads = 'ENV UV_THREADPOOL_SIZE=16';
await build(CLICKHOUSE_IMAGE, [threads, `CMD ["/bin/node", "${clickhouse}"]`], (image) => {
  image.addProgram(process.execPath, '/bin/node');
  image.add(here('./clickhouse.ts'), clickhouse);
  for (const path of ['package.json', 'src/process', 'src/clickhouse']) {
    image.add(join(ROOT, 'services/runtime', path), `/questlog/services/runtime/${path}`);
  }
  image.link('/questlog/services/runtime', '/questlog/node_modules/@questlog/runtime');
  for (const library of ['chdb', '@chdb']) {
    image.add(join(ROOT, 'node_modules', library), `/questlog/node_modules/${library}`);
  }
  image.addLibrariesOf(join(ROOT, `node_modules/@chdb/lib-linux-${process.arch}-gnu/libchdb.so`));
});

async function build(
  name: string,
  changes: readonly string[],
  fill: (image: ImageFolder) => void,
): Promise<void> {
  const image = new ImageFolder();
  try {
    fill(image);
    await image.importAs(name, changes);
    console.log(`built a stand-in for ${name}`);
  } finally {
    image.remove();
  }
}

/** The runtime only, whatever else the installation has, and without what only windows need. */
function addJava(image: ImageFolder): void {
  const home = dirname(
    dirname(execFileSync('readlink', ['-f', whereIs('java')], { encoding: 'utf8' }).trim()),
  );
  for (const part of ['bin', 'conf', 'lib', 'release']) {
    if (existsSync(join(home, part))) image.add(join(home, part), `/opt/java/${part}`);
  }
  image.addLibrariesOf(join(home, 'bin/java'));
  // Jars carry native code, such as that of zstd, which no ldd can find: it needs what Node needs, and less.
  image.addLibrariesOf(process.execPath);
  for (const name of ['server/libjvm.so', 'libjava.so', 'libnet.so', 'libnio.so', 'libzip.so']) {
    image.addLibrariesOf(join(home, 'lib', name));
  }
}

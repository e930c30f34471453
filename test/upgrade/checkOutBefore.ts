/** Checks out the version from which the upgrade tests upgrade, so that the tests do not wait for the installation. */
import { checkOut, VERSION_BEFORE } from './versionBefore.ts';

checkOut(VERSION_BEFORE);

/** Checks out the version of the upgrade tests before the tests run. */
import { checkOut, VERSION_BEFORE } from './versionBefore.ts';

checkOut(VERSION_BEFORE);

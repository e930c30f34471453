/** Starts a real Chromium. */
import { type Browser, chromium } from 'playwright-core';
import { describe } from 'vitest';
import { findProgram } from '../games/gamePages.ts';

/** Time limit of a start. Longer than the 30 s of Playwright, because browsers and services of several tests start at the same time. */
const STARTED_WITHIN_MS = 120_000;
const executablePath = findProgram('chromium') ?? '';

export const hasChromium = executablePath !== '';
if (!hasChromium) console.warn('skipped: the tests in a browser, because Chromium is not installed');

/** Groups tests that need Chromium. The tests are skipped if Chromium is not installed. */
export const describeInChromium = describe.skipIf(!hasChromium);

export async function launchChromium(): Promise<Browser> {
  return await chromium.launch({ timeout: STARTED_WITHIN_MS, executablePath });
}

/** Starts a real Chromium. */
import { type Browser, chromium } from 'playwright-core';
import { describe } from 'vitest';
import { findProgram } from '../games/gamePages.ts';

/** Time limit of a start. The first start after an installation takes long on a busy machine. */
const STARTED_WITHIN_MS = 120_000;
const executablePath = findProgram('chromium') ?? '';

export const hasChromium = executablePath !== '';
if (!hasChromium) console.warn('skipped: some tests need Chromium, which is not installed');

/** Groups tests that need Chromium. The tests are skipped if Chromium is not installed. */
export const describeInChromium = describe.skipIf(!hasChromium);

export async function launchChromium(): Promise<Browser> {
  return await chromium.launch({ timeout: STARTED_WITHIN_MS, executablePath });
}

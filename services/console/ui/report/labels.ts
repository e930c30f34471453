/** Texts for the states of reports and links. */
import type { VNode } from 'preact';
import { count } from '../format.ts';
import { html } from '../html.ts';

const SEVERITY_CLASSES: Readonly<Record<string, string>> = { critical: 'bad', high: 'bad', medium: 'warn' };

export function titleOf(title: string): string {
  return title || '(without a title)';
}

export function Severity({ of }: { of: string }): VNode {
  return of === ''
    ? html`<span>–</span>`
    : html`<span class=${`tag ${SEVERITY_CLASSES[of] ?? ''}`}>${of}</span>`;
}

export function State({ retractedAt }: { retractedAt: string | null }): VNode {
  return retractedAt === null
    ? html`<span class="tag">filed</span>`
    : html`<span class="tag bad">retracted</span>`;
}

export const SOURCES: Readonly<Record<string, string>> = {
  inline: 'sent in the report',
  named: 'named by the report',
  session: 'in the session and the window of the report',
};

/** Formats a time difference in seconds, for example `−1 m 20 s`. */
export function offsetText(seconds: number): string {
  const sign = seconds < 0 ? '−' : '+';
  const size = Math.abs(seconds);
  if (size < 60) return `${sign}${size < 10 ? size.toFixed(size < 0.0005 ? 0 : 3) : size.toFixed(1)} s`;
  const [hours, minutes, left] = [Math.floor(size / 3600), Math.floor(size / 60) % 60, Math.round(size % 60)];
  return hours > 0 ? `${sign}${count(hours)} h ${minutes} m` : `${sign}${minutes} m ${left} s`;
}

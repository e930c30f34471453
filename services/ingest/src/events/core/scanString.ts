/** Reads the strings of the events' envelopes out of a body, making one that comes again only once. */
import { FAILED, type JsonBytes } from './scanValue.ts';

/**
 * A batch mostly repeats the same session, build and few types. Comparing a string's bytes with those of one that was
 * read before costs less than half of making it again, and the caller gets the same object, so that whatever it
 * remembers of a string is found at once. One is remembered per field and first two bytes.
 */
export class EnvelopeStrings {
  /** Behind the closing quote of the string read last, or `FAILED`. */
  end = 0;
  /** Whether it was ASCII without escapes. */
  wasPlain = true;
  private readonly json: JsonBytes;
  /** Undefined where nothing can come again, because the body is a single event. */
  private readonly words: DataView | undefined;
  private readonly known: KnownString[];

  constructor(json: JsonBytes, isBatch: boolean) {
    this.json = json;
    this.words = isBatch ? new DataView(json.body.buffer, json.body.byteOffset, json.end) : undefined;
    this.known = isBatch ? new Array<KnownString>(SLOTS_PER_FIELD * FIELDS_THAT_REPEAT).fill(NOTHING) : [];
  }

  /**
   * The string whose opening quote stands at `i`; meaningless where `end` is then `FAILED`. Times differ from event to
   * event: a field that is not below `FIELDS_THAT_REPEAT` is not compared with anything.
   */
  read(i: number, field: number): string {
    const { json } = this;
    const { body } = json;
    this.wasPlain = true;
    const start = i + 1;
    const { words } = this;
    const slot = words !== undefined && field < FIELDS_THAT_REPEAT ? slotOf(json, start, field) : NO_SLOT;
    if (words !== undefined && slot !== NO_SLOT) {
      const known = this.known[slot];
      if (known !== undefined && known !== NOTHING && this.stands(known, words, start)) return known.text;
    }

    const plainEnd = json.skipPlainAscii(start);
    if (json.at(plainEnd) !== QUOTE) {
      this.end = json.skipCharacters(plainEnd);
      this.wasPlain = false;
      return this.end === FAILED ? '' : decodeString(body, start, this.end - 1);
    }
    this.end = plainEnd + 1;
    const text = body.toString('latin1', start, plainEnd);
    if (slot !== NO_SLOT) this.known[slot] = { start, quoteAt: plainEnd, text };
    return text;
  }

  /** Whether the same bytes, closing quote included, stand at `i` again: four at a time, then one by one. */
  private stands(known: KnownString, words: DataView, i: number): boolean {
    const { body, end } = this.json;
    const { start, quoteAt } = known;
    if (i + quoteAt - start >= end) return false;
    let k = start;
    while (k + 3 <= quoteAt && words.getInt32(k) === words.getInt32(i)) {
      k += 4;
      i += 4;
    }
    while (k <= quoteAt && body[k] === body[i]) {
      k++;
      i++;
    }
    if (k <= quoteAt) return false;
    this.end = i;
    return true;
  }
}

/** Where the bytes of a string stand in the body. */
interface KnownString {
  readonly start: number;
  readonly quoteAt: number;
  readonly text: string;
}

function slotOf(json: JsonBytes, start: number, field: number): number {
  return field * SLOTS_PER_FIELD + ((json.at(start) * 3 + json.at(start + 1)) & (SLOTS_PER_FIELD - 1));
}

const SLOTS_PER_FIELD = 16;
const FIELDS_THAT_REPEAT = 3;
const NO_SLOT = -1;
const NOTHING: KnownString = { start: 0, quoteAt: 0, text: '' };

const QUOTE = 0x22;
/** `start` and `end` lie inside the quotes. Lone surrogates stay in the answer, as `JSON.parse` leaves them. */
export function decodeString(body: Buffer, start: number, end: number): string {
  if (!body.subarray(start, end).includes(BACKSLASH)) return body.toString('utf8', start, end);
  // Escapes are rare in the envelope; the engine's own decoder cannot differ from what clients know.
  const value: unknown = JSON.parse(body.toString('utf8', start - 1, end + 1));
  return String(value);
}

const BACKSLASH = 0x5c;

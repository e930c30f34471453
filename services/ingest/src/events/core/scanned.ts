/** The scanner's findings in a request's body. */
import type { ValueKind } from '../../core/scanValue.ts';

/** The kind of a value that stood in place of a string. */
export interface NotAString {
  readonly kind: Exclude<ValueKind, 'string'>;
}

/** The decoded string, or what stood there instead of one, or undefined where the field is absent. */
export type StringField = string | NotAString | undefined;

export type EnvelopeField = 'sessionId' | 'buildId' | 'eventType' | 'occurredAt' | 'payload';

const NO_FIELDS: readonly EnvelopeField[] = [];

/**
 * One element of the body. Offsets are bytes of the body, `end` is the first byte behind. Only an element of kind
 * `object` has fields; of a repeated field the last occurrence counts. Flat and always of the same shape, so that
 * reading it costs nothing.
 */
export class FoundElement {
  start: number;
  end = 0;
  kind: ValueKind;
  sessionId: StringField = undefined;
  buildId: StringField = undefined;
  eventType: StringField = undefined;
  occurredAt: StringField = undefined;
  /** Undefined where the payload is absent; the span is then empty. */
  payloadKind: ValueKind | undefined = undefined;
  payloadStart = 0;
  payloadEnd = 0;
  /** Envelope fields that occur more than once, each named once. */
  repeated: readonly EnvelopeField[] = NO_FIELDS;
  /** Envelope fields whose string holds a surrogate without its other half: UTF-8 cannot carry it. */
  loneSurrogate: readonly EnvelopeField[] = NO_FIELDS;
  /** JSON pointer, inside the element, of the first member whose value nests deeper than 64 containers. */
  tooDeep: string | undefined = undefined;
  /** The fields that have occurred: the bit `1 << field` each. */
  seen = 0;

  constructor(start: number, kind: ValueKind) {
    this.start = start;
    this.kind = kind;
  }
}

/** What the scanner filled in, as its readers see it. */
export type ScannedElement = Readonly<Omit<FoundElement, 'seen'>>;

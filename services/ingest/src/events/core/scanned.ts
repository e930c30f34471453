/** The scanner's findings in a request's body. */
import type { ValueKind } from '../../core/scanValue.ts';

/** The kind of a value that stood in place of a string. */
export interface NotAString {
  readonly kind: Exclude<ValueKind, 'string'>;
}

/** The decoded string, or what stood there instead of one, or undefined where the field is absent. */
export type StringField = string | NotAString | undefined;

export type EnvelopeField = 'sessionId' | 'buildId' | 'eventType' | 'occurredAt' | 'payload';

/**
 * One element of the body. Offsets are bytes of the body, `end` is the first byte behind. Only an element of kind
 * `object` has fields; of a repeated field the last occurrence counts. Flat and always of the same shape, so that
 * reading it costs nothing.
 */
export interface ScannedElement {
  readonly start: number;
  readonly end: number;
  readonly kind: ValueKind;
  readonly sessionId: StringField;
  readonly buildId: StringField;
  readonly eventType: StringField;
  readonly occurredAt: StringField;
  /** Undefined where the payload is absent; the span is then empty. */
  readonly payloadKind: ValueKind | undefined;
  readonly payloadStart: number;
  readonly payloadEnd: number;
  /** Envelope fields that occur more than once, each named once. */
  readonly repeated: readonly EnvelopeField[];
  /** Envelope fields whose string holds a surrogate without its other half: UTF-8 cannot carry it. */
  readonly loneSurrogate: readonly EnvelopeField[];
  /** JSON pointer, inside the element, of the first member whose value nests deeper than 64 containers. */
  readonly tooDeep: string | undefined;
}

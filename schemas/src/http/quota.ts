/** Usage of a tenant's monthly soft quota. */
import Type, { type Static } from 'typebox';
import { Nullable } from './fields.ts';

export const QuotaOutput = Type.Object({
  month: Type.String({ description: 'The UTC month of `receivedAt`.', examples: ['2026-11'] }),
  used: Type.Integer({ minimum: 0 }),
  softQuota: Nullable(Type.Integer({ minimum: 0 })),
});
export type QuotaOutput = Static<typeof QuotaOutput>;

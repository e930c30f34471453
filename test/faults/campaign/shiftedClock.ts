/** Shifts the clock of a service. A test loads this module with `NODE_OPTIONS=--import`. */
const { now } = Date;
const shiftMs = Number(process.env['TEST_CLOCK_SHIFT_MS'] ?? 0);

Date.now = () => now() + shiftMs;
globalThis.Date = new Proxy(Date, {
  construct: (real, args) => (args.length === 0 ? new real(real.now()) : Reflect.construct(real, args)),
});

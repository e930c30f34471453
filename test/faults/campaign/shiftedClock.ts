/** Loaded before a service of a test by `NODE_OPTIONS=--import`: its clock is wrong by so many milliseconds. */
const { now } = Date;
const shiftMs = Number(process.env['TEST_CLOCK_SHIFT_MS'] ?? 0);

Date.now = () => now() + shiftMs;
globalThis.Date = new Proxy(Date, {
  construct: (real, args) => (args.length === 0 ? new real(real.now()) : Reflect.construct(real, args)),
});

/** Reads `QUESTLOG_REQUIRE`, a comma-separated list of the programs and engines whose tests must not be skipped. */

export function requiredNames(
  env: Readonly<Record<string, string | undefined>> = process.env,
): readonly string[] {
  return (env['QUESTLOG_REQUIRE'] ?? '').split(',').map((name) => name.trim());
}

/** Fails instead of a skipped test. @throws Error if `QUESTLOG_REQUIRE` contains the name. */
export function failIfRequired(name: string, lack: string, options?: ErrorOptions): void {
  if (requiredNames().includes(name))
    throw new Error(`QUESTLOG_REQUIRE asks for ${name}, but ${lack}`, options);
}

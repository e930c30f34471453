/** A table with a column of each type that the clients read. */
export const ALL_TYPES = [
  `CREATE TABLE all_types (u UInt64, i Int32, f Float64, d Decimal(18, 4), s String, fixed FixedString(3), n Nullable(String),
     lc LowCardinality(Nullable(String)), e Enum8('a' = 1, 'b' = 2), b Bool, day Date, at DateTime('UTC'),
     at6 DateTime64(6, 'UTC'), id UUID, ip IPv4, ip6 IPv6, tags Array(LowCardinality(String)), m Map(String, UInt8),
     t Tuple(x UInt8, y Nullable(String)), nested Array(Array(Nullable(Int8))), big Int128,
     sum SimpleAggregateFunction(sum, UInt64)) ENGINE = MergeTree ORDER BY u`,
  `INSERT INTO all_types SELECT number, -number, number / 4, 1.5, 'é\\n' || number, 'abc', if(number % 2, NULL, 'x'),
     if(number % 2, NULL, 'y'), 'b', number % 2, '2026-01-02', '2026-01-02 03:04:05', '2026-01-02 03:04:05.678901',
     '01a1fe02-7454-7000-a110-3027adf24232', '127.0.0.1', '::1', if(number % 2, [], ['a', 'b']), map('k', number),
     (number, NULL), [[number, NULL], []], -1, 7 FROM numbers(2)`,
] as const;

export const COLUMNS = 'u i f d s fixed n lc e b day at at6 id ip ip6 tags m t nested big sum'.split(' ');

/**
 * Data: the aggregate and window functions of engine 26.7 that only compute, and the combinators that may follow
 * their names (`sumIf`, `quantilesArrayOrNull`); checked against the engine by `selectOnlyNames.int.test.ts`.
 */
export const aggregateFunctions = `
  BIT_AND BIT_OR BIT_XOR COVAR_POP COVAR_SAMP MVTEncode STD STDDEV STDDEV_POP STDDEV_SAMP ST_AsMVT VAR_POP
  VAR_SAMP analysisOfVariance anova any anyHeavy anyLast anyLastRespectNulls anyLast_respect_nulls
  anyRespectNulls anyValueRespectNulls any_respect_nulls any_value any_value_respect_nulls approx_top_count
  approx_top_k approx_top_sum argAndMax argAndMin argMax argMin array_agg array_concat_agg avg avgWeighted
  boundingRatio categoricalInformationValue contingency corr corrMatrix corrStable count covarPop
  covarPopMatrix covarPopStable covarSamp covarSampMatrix covarSampStable cramersV cramersVBiasCorrected
  cume_dist deltaSum deltaSumTimestamp denseRank dense_rank distinctDynamicTypes distinctJSONPaths
  distinctJSONPathsAndTypes entropy estimateCompressionRatio exponentialMovingAverage
  exponentialTimeDecayedAvg exponentialTimeDecayedCount exponentialTimeDecayedMax exponentialTimeDecayedSum
  firstValueRespectNulls first_value first_value_respect_nulls groupArray groupArrayInsertAt
  groupArrayIntersect groupArrayLast groupArrayMovingAvg groupArrayMovingSum groupArraySample
  groupArraySorted groupBitAnd groupBitOr groupBitXor groupBitmap groupBitmapAnd groupBitmapOr groupBitmapXor
  groupConcat groupFormat groupNumericIndexedVector groupUniqArray group_concat histogram intervalLengthSum
  kolmogorovSmirnovTest kurtPop kurtSamp lag lagInFrame largestTriangleThreeBuckets lastValueRespectNulls
  last_value last_value_respect_nulls lead leadInFrame lttb mannWhitneyUTest max maxIntersections
  maxIntersectionsPosition maxMappedArrays max_by meanZTest median medianBFloat16 medianBFloat16Weighted
  medianDD medianDeterministic medianExact medianExactHigh medianExactLow medianExactWeighted
  medianExactWeightedInterpolated medianGK medianInterpolatedWeighted medianTDigest medianTDigestWeighted
  medianTiming medianTimingWeighted min minMappedArrays min_by nonNegativeDerivative nothing nothingNull
  nothingUInt64 nth_value ntile percentRank percent_rank quantile quantileBFloat16 quantileBFloat16Weighted
  quantileDD quantileDeterministic quantileExact quantileExactExclusive quantileExactHigh
  quantileExactInclusive quantileExactLow quantileExactWeighted quantileExactWeightedInterpolated quantileGK
  quantileInterpolatedWeighted quantilePrometheusHistogram quantileTDigest quantileTDigestWeighted
  quantileTiming quantileTimingWeighted quantiles quantilesBFloat16 quantilesBFloat16Weighted quantilesDD
  quantilesDeterministic quantilesExact quantilesExactExclusive quantilesExactHigh quantilesExactInclusive
  quantilesExactLow quantilesExactWeighted quantilesExactWeightedInterpolated quantilesGK
  quantilesInterpolatedWeighted quantilesPrometheusHistogram quantilesTDigest quantilesTDigestWeighted
  quantilesTiming quantilesTimingWeighted rank rankCorr retention row_number sequenceCount sequenceMatch
  sequenceMatchEvents sequenceNextNode simpleLinearRegression singleValueOrNull skewPop skewSamp sparkBar
  sparkbar stddevPop stddevPopStable stddevSamp stddevSampStable stochasticLinearRegression
  stochasticLogisticRegression string_agg studentTTest studentTTestOneSample sum sumCount sumKahan
  sumMapFiltered sumMapFilteredWithOverflow sumMapWithOverflow sumMappedArrays sumWithOverflow theilsU
  timeSeriesChangesToGrid timeSeriesDeltaToGrid timeSeriesDerivToGrid timeSeriesGroupArray
  timeSeriesIncreaseToGrid timeSeriesInstantDeltaToGrid timeSeriesInstantRateToGrid timeSeriesLastToGrid
  timeSeriesLastTwoSamples timeSeriesPredictLinearToGrid timeSeriesRateToGrid
  timeSeriesResampleToGridWithStaleness timeSeriesResetsToGrid topK topKWeighted uniq uniqCombined
  uniqCombined64 uniqExact uniqHLL12 uniqUpTo varPop varPopStable varSamp varSampStable welchTTest
  windowFunnel
`;

/** A combinator only changes how a function is fed, so every combination of what is allowed is allowed. */
export const aggregateCombinators = `
  Array ArgMax ArgMin Distinct ForEach If Map Merge Null OrDefault OrNull Resample SimpleState State Tuple
`;

/** Functions that only compute and that ClickHouse servers have, but not the library. */
export const serverOnlyFunctions = `
  BLAKE3 detectCharset detectLanguage detectLanguageMixed detectLanguageUnknown detectProgrammingLanguage
  detectTonality geoToS2 idnaDecode idnaEncode punycodeDecode punycodeEncode s2CapContains s2CapUnion
  s2CellsIntersect s2GetNeighbors s2RectAdd s2RectContains s2RectIntersection s2RectUnion s2ToGeo stem
  tryIdnaEncode tryPunycodeDecode
`;

/** What the parser makes of EXISTS and of forms of its own, which are functions in the tree but not in the engine's list. */
export const parserFunctions = `
  exists grouping untuple
`;

/**
 * Data: the functions of engine 26.7 that do more than compute, each group with its reason, and every table function
 * (a question may use a few, listed in `selectOnlyPolicy.ts`). A name in neither this file nor the lists of what is
 * allowed is refused as well; these are here so that the whole of the engine has been looked at, which
 * `selectOnlyNames.int.test.ts` checks, and so that a hidden corner of the parser cannot smuggle one in.
 */
export const refusedFunctions = [
  // Dictionaries load from wherever their source is, embedded ones from files.
  `
    dictGet dictGetAll dictGetChildren dictGetDate dictGetDateOrDefault dictGetDateTime
    dictGetDateTimeOrDefault dictGetDescendants dictGetFloat32 dictGetFloat32OrDefault dictGetFloat64
    dictGetFloat64OrDefault dictGetHierarchy dictGetIPv4 dictGetIPv4OrDefault dictGetIPv6 dictGetIPv6OrDefault
    dictGetInt16 dictGetInt16OrDefault dictGetInt32 dictGetInt32OrDefault dictGetInt64 dictGetInt64OrDefault
    dictGetInt8 dictGetInt8OrDefault dictGetKeys dictGetOrDefault dictGetOrNull dictGetRoot dictGetString
    dictGetStringOrDefault dictGetUInt16 dictGetUInt16OrDefault dictGetUInt32 dictGetUInt32OrDefault
    dictGetUInt64 dictGetUInt64OrDefault dictGetUInt8 dictGetUInt8OrDefault dictGetUUID dictGetUUIDOrDefault
    dictHas dictIsIn regionHierarchy regionIn regionToArea regionToCity regionToContinent regionToCountry
    regionToDistrict regionToName regionToPopulation regionToTopContinent
  `,
  // Models and services outside the engine.
  `
    AIClassify AIExtract AIGenerate AITranslate aiClassify aiEmbed aiExtract aiGenerate aiTranslate
    catboostEvaluate naiveBayesClassifier naiveBayesClassifierWithAllProbs naiveBayesClassifierWithProb
  `,
  // Tables and files that are named in an argument, or by a number.
  `
    file filesystemAvailable filesystemCapacity filesystemUnreserved getMaxTableNameLengthForDatabase
    hasColumnInTable joinGet joinGetOrNull
  `,
  // The state, the configuration and the identity of the server and of its users.
  `
    FQDN authUser authenticatedUser buildId connectionId connection_id currentProfiles currentQueryID
    currentRoles currentUser current_query_id current_user defaultProfiles defaultRoles displayName
    enabledProfiles enabledRoles fullHostName generateSerialID getClientHTTPHeader getMacro getMergeTreeSetting
    getOSKernelVersion getServerPort getServerSetting getSetting getSettingOrDefault globalVariable
    hasThreadFuzzer hostName hostname initialQueryID initialQueryStartTime initial_query_id
    initial_query_start_time logTrace queryID query_id runningConcurrency serverUUID session_user shardCount
    shardNum showCertificate tcpPort tid timeSeriesStoreTags transactionID transactionLatestSnapshot
    transactionOldestSnapshot uptime user zookeeperSessionUptime
  `,
  // The binary of the server, its symbols and its memory.
  `
    addressToLine addressToLineWithInlines addressToSymbol demangle flameGraph
  `,
  // Time that is only lost, and failures made on purpose in the engine.
  `
    aggThrow fuzzQuery sleep sleepEachRow
  `,
  // The engine’s own, not meant to be written by hand.
  `
    _CAST __actionName __applyFilter __bitBoolMaskAnd __bitBoolMaskOr __bitSwapLastTwo __bitWrapperFunc
    __getScalar __patchPartitionID __scalarSubqueryResult __toYearCalendarOnly globalInIgnoreSet
    globalNotInIgnoreSet globalNotNullInIgnoreSet globalNullInIgnoreSet inIgnoreSet nested notInIgnoreSet
    notNullInIgnoreSet nullInIgnoreSet validateNestedArraySizes
  `,
  // Known of ClickHouse servers, not in the library.
  'reverseDNSQuery lemmatize synonyms modelEvaluate',
].join(' ');

export const engineTableFunctions = `
  SQLStandardValues arrowstream azureBlobStorage azureBlobStorageCluster cluster clusterAllReplicas cosn
  deltaLake deltaLakeAzure deltaLakeAzureCluster deltaLakeCluster deltaLakeLocal deltaLakeS3
  deltaLakeS3Cluster dictionary eval executable file fileCluster filesystem format fuzzJSON fuzzQuery gcs
  generateRandom generateSeries generate_series hdfs hdfsCluster hudi hudiCluster iceberg icebergAzure
  icebergAzureCluster icebergCluster icebergHDFS icebergHDFSCluster icebergLocal icebergLocalCluster
  icebergS3 icebergS3Cluster input jdbc loop merge mergeTreeAnalyzeIndexes mergeTreeAnalyzeIndexesUUID
  mergeTreeIndex mergeTreeProjection mergeTreeTextIndex mongodb mysql null numbers numbers_mt odbc oss paimon
  paimonAzure paimonAzureCluster paimonCluster paimonHDFS paimonHDFSCluster paimonLocal paimonS3
  paimonS3Cluster postgresql primes prometheusQuery prometheusQueryRange redis remote remoteSecure s3
  s3Cluster sqlite timeSeriesData timeSeriesMetrics timeSeriesSamples timeSeriesSelector timeSeriesTags url
  urlCluster values view viewExplain viewIfPermitted ytsaurus zeros zeros_mt
`;

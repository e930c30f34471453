#!/bin/sh
# As the image of apache/kafka begins: settings from KAFKA_* (KAFKA_A_B is a.b), a formatted folder, a broker.
# No pattern is expanded: Java does that itself with the class path.
set -euf

settings=/opt/kafka/config/server.properties
options="-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.xml -cp /opt/kafka/libs/*"

env | sed -n 's/^KAFKA_//p' | while IFS='=' read -r name value; do
  # Options of Java are no setting.
  [ "$name" = HEAP_OPTS ] || echo "$(echo "$name" | tr 'A-Z_' 'a-z.')=$value"
done >"$settings"

# shellcheck disable=SC2086 # Options are several words.
java -Xmx128m $options kafka.tools.StorageTool format --ignore-formatted -t "$CLUSTER_ID" -c "$settings"
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xmx1g} $options kafka.Kafka "$settings"

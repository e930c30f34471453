import com.clickhouse.jdbc.Driver;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.Timer;
import java.util.TimerTask;

/**
 * Reads from ClickHouse with the JDBC driver and its default options, as DBeaver and Metabase do.
 *
 * Usage: JdbcClient <address> <user> <password>. Prints one line per result.
 */
public class JdbcClient {
    static final String ENDLESS = "SELECT sum(sipHash64(number)) FROM numbers(100000000000)";

    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        properties.setProperty("user", arguments[1]);
        properties.setProperty("password", arguments[2]);
        var address = "jdbc:clickhouse://" + arguments[0] + "/questlog";
        try (var connection = new Driver().connect(address, properties)) {
            readMetadata(connection);
            readTypes(connection);
            readManyRows(connection);
            fail(connection);
        }
        readAsMetabase(address, properties);
    }

    /** Connects with the options of Metabase, and runs the statements with which Metabase reads the version of ClickHouse. */
    static void readAsMetabase(String address, Properties account) throws SQLException {
        var properties = new Properties();
        properties.putAll(account);
        properties.putAll(Map.of(
                "ssl", "false", "use_server_time_zone_for_dates", "true", "product_name", "metabase/v0.58.1",
                "remember_last_set_roles", "true", "http_connection_provider", "HTTP_URL_CONNECTION",
                "jdbc_ignore_unsupported_values", "true", "jdbc_schema_term", "schema",
                "max_open_connections", "100", "custom_http_params", ""));
        try (var connection = new Driver().connect(address, properties);
                var statement = connection.createStatement()) {
            var types = new String[] {"TABLE", "VIEW", "FOREIGN TABLE", "REMOTE TABLE", "DICTIONARY", "MATERIALIZED VIEW"};
            print("metabase tables", column(connection.getMetaData().getTables(null, "questlog", "%", types), "TABLE_NAME"));
            print("metabase version", count(statement.executeQuery(
                    "WITH s AS (SELECT version() AS ver, splitByChar('.', ver) AS verSplit) SELECT s.ver, toInt32(verSplit[1]), toInt32(verSplit[2]) FROM s")));
            print("metabase cloud", count(statement.executeQuery("SELECT value='1' FROM system.settings WHERE name='cloud_mode'")));
        }
    }

    /** Calls the methods that DBeaver and Metabase call when they list the tables. */
    static void readMetadata(Connection connection) throws SQLException {
        var metadata = connection.getMetaData();
        print("driver", metadata.getDriverVersion());
        print("version", metadata.getDatabaseProductVersion());
        print("valid", connection.isValid(5));
        print("catalogs", count(metadata.getCatalogs()));
        print("schemas", column(metadata.getSchemas(), "TABLE_SCHEM").contains("questlog"));
        print("tableTypes", count(metadata.getTableTypes()) > 0);
        print("tables", column(metadata.getTables(null, "questlog", "all_types", new String[] {"TABLE", "VIEW"}), "TABLE_NAME"));
        print("anyTables", column(metadata.getTables(null, "questlog", "%", null), "TABLE_NAME"));
        print("columns", column(metadata.getColumns(null, "questlog", "all_types", "%"), "COLUMN_NAME"));
        print("keys", column(metadata.getPrimaryKeys(null, "questlog", "all_types"), "COLUMN_NAME"));
        print("importedKeys", count(metadata.getImportedKeys(null, "questlog", "all_types")));
        print("indexes", count(metadata.getIndexInfo(null, "questlog", "all_types", false, false)));
        print("types", column(metadata.getTypeInfo(), "TYPE_NAME").contains("Decimal"));
        print("functions", count(metadata.getFunctions(null, null, "toStartOfDay%")));
        print("procedures", count(metadata.getProcedures(null, "questlog", "%")));
        print("privileges", count(metadata.getTablePrivileges(null, "questlog", "all_types")));
        print("clientInfo", count(metadata.getClientInfoProperties()) > 0);
    }

    static void readTypes(Connection connection) throws SQLException {
        try (var statement = connection.prepareStatement("SELECT * FROM all_types WHERE u >= ? ORDER BY u")) {
            statement.setLong(1, 0);
            try (var rows = statement.executeQuery()) {
                var description = rows.getMetaData();
                while (rows.next()) {
                    for (int at = 1; at <= description.getColumnCount(); at++) {
                        print("row " + rows.getRow() + " " + description.getColumnName(at), valueOf(rows, at, description.getColumnType(at)));
                    }
                }
            }
        }
    }

    static String valueOf(ResultSet rows, int at, int type) throws SQLException {
        var value = rows.getObject(at);
        if (value instanceof Object[] tuple) return Arrays.deepToString(tuple);
        return type == Types.ARRAY && value != null ? rows.getString(at) : String.valueOf(value);
    }

    static void readManyRows(Connection connection) throws SQLException {
        long count = 0;
        long characters = 0;
        try (var statement = connection.createStatement();
                var rows = statement.executeQuery("SELECT number, toString(number) AS text FROM numbers(1000000)")) {
            while (rows.next()) {
                count++;
                characters += rows.getString("text").length();
            }
        }
        print("rows", count + " " + characters);
    }

    static void fail(Connection connection) throws SQLException {
        print("error", errorOf(connection, "SELECT * FROM no_such_table"));
        print("timeout", errorOf(connection, ENDLESS + " SETTINGS max_execution_time = 1"));
        try (var statement = connection.createStatement()) {
            new Timer(true).schedule(cancellationOf(statement), 300);
            statement.executeQuery(ENDLESS);
            print("canceled", false);
        } catch (SQLException error) {
            print("canceled", error.getMessage().contains("QUERY_WAS_CANCELLED"));
        }
    }

    static TimerTask cancellationOf(Statement statement) {
        return new TimerTask() {
            @Override
            public void run() {
                try {
                    statement.cancel();
                } catch (SQLException error) {
                    print("cancel", error.getMessage());
                }
            }
        };
    }

    static String errorOf(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.executeQuery(sql);
            return "none";
        } catch (SQLException error) {
            return error.getErrorCode() + " " + error.getMessage().split("\n")[0];
        }
    }

    static int count(ResultSet rows) throws SQLException {
        int count = 0;
        while (rows.next()) count++;
        return count;
    }

    static String column(ResultSet rows, String name) throws SQLException {
        var values = new StringBuilder();
        while (rows.next()) values.append(values.isEmpty() ? "" : ",").append(rows.getString(name));
        return values.toString();
    }

    static void print(String name, Object value) {
        System.out.println(name + "\t" + String.valueOf(value).replace("\n", "\\n"));
    }
}
